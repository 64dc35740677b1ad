# A workload for perl: hashes, strings, regular expressions, sorting, closures and a fork.
use strict;
use warnings;

$| = 1;
my %words;
for my $i (1 .. 200000) {
    my $word = "w" . ($i * 7919 % 20011);
    push @{$words{$word}}, $i if $i % 3;
    $words{$word} = [] if $i % 1013 == 0;
}
my @sorted = sort { @{$words{$b}} <=> @{$words{$a}} || $a cmp $b } keys %words;
print "words ", scalar(@sorted), " first $sorted[0] ", scalar(@{$words{$sorted[0]}}), "\n";

my $text = join " ", map { "key$_=" . ("x" x ($_ % 50)) } 1 .. 50000;
my $count = 0;
$count += length $2 while $text =~ /key(\d+)=(x*)/g;
(my $other = $text) =~ s/x{10,20}/<$count>/g;
print "matched $count, now ", length $other, "\n";

my @closures = map { my $n = $_; sub { return $n * shift } } 1 .. 20000;
my $sum = 0;
$sum += $_->(3) for @closures;
print "closures $sum\n";

my $pid = fork();
die "no fork" unless defined $pid;
if ($pid == 0) {
    my @list = map { "item $_" } 1 .. 100000;
    print "child ", scalar(@list), " ", unpack("%32C*", join "", @list), "\n";
    exit 0;
}
waitpid $pid, 0;
print "child status $?\n";
my $grown = "";
$grown .= chr(65 + $_ % 26) for 1 .. 3000000;
print "string ", length $grown, " ", unpack("%32C*", $grown), "\n";
