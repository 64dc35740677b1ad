#!/usr/bin/perl
# Reads a log that it writes itself, line by line, with patterns, hashes of lists and sorting, as
# reports of web servers are made. Prints one line that depends on every result.
use strict;
use warnings;

my $state = 4141;

sub random {
    my ($limit) = @_;
    $state = ($state * 1103515245 + 12345) % 2147483648;
    return int($state / 65536) % $limit;
}

my @pages = map { "/shop/" . join("/", map { "part" . ($_ * 7 % 13) } 1 .. 1 + $_ % 4) . "/$_.html" } 1 .. 900;

sub line {
    my ($second) = @_;
    my $page = $pages[random(1 + random(900))];
    my $query = random(3) ? "" : "?" . join("&", map { "k$_=" . random(10000) } 1 .. 1 + random(5));
    return sprintf('10.%d.%d.%d - [%06d] "GET %s%s" %d %d "agent/%d"',
        random(4), random(16), random(250), $second, $page, $query,
        random(30) ? 200 : 404, 200 + random(90000), random(40));
}

my $log = join("\n", map { line($_) } 1 .. 120000);

my (%by_page, %by_host, %queries, %hours);
for (split /\n/, $log) {
    next unless m{^(\S+) - \[(\d+)\] "GET ([^"?]+)(?:\?([^"]*))?" (\d+) (\d+) "([^"]+)"$};
    my ($host, $second, $page, $query, $status, $size, $agent) = ($1, $2, $3, $4, $5, $6, $7);
    push @{$by_page{$page}}, $size;
    $by_host{$host}{$agent}++;
    $hours{int($second / 3600)}{$page} .= "$status ";
    if (defined $query) {
        my %fields = map { split /=/, $_, 2 } split /&/, $query;
        $queries{join ",", sort keys %fields}{$fields{k1}} = [$host, $second];
    }
}

my ($median, $agents, $text) = (0, 0, "");
for my $page (sort keys %by_page) {
    my @sizes = sort { $a <=> $b } @{$by_page{$page}};
    $median += $sizes[@sizes / 2];
    (my $title = ucfirst lc $page) =~ s{[/.]}{ }g;
    $text .= "$title: " . scalar(@sizes) . "\n";
}
$agents += keys %{$by_host{$_}} for keys %by_host;
my $kinds = join " ", map { scalar keys %{$queries{$_}} } sort keys %queries;
my $missing = 0;
for my $hour (sort { $a <=> $b } keys %hours) {
    $missing += () = $hours{$hour}{$_} =~ /404/g for keys %{$hours{$hour}};
}
printf "%d %d %d %d %s %d\n", length $log, $median, $agents, length $text, $kinds, $missing;
