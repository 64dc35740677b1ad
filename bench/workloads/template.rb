# Renders pages from records, as a web application does: hashes, symbols, strings built by
# interpolation, substitution and joining, sorting and grouping. Prints one line that depends on
# every result.

class Random31
  def initialize(seed) = @state = seed

  def below(limit)
    @state = (@state * 1103515245 + 12345) % 2147483648
    @state / 65536 % limit
  end
end

Record = Struct.new(:id, :title, :author, :words, :rating, :comments)

def record(random, id)
  words = Array.new(5 + random.below(60)) { "w#{random.below(3000)}" }
  comments = Array.new(random.below(6)) { { by: "user#{random.below(500)}", text: words.sample(random: Random.new(id)) * 3 } }
  Record.new(id, "Title #{id} of #{words.first}", "author#{random.below(200)}", words, random.below(50), comments)
end

def render(record)
  head = "<h1>{{title}}</h1><p>by {{author}}</p>".gsub(/\{\{(\w+)\}\}/) { record[$1.to_sym].to_s }
  body = record.words.each_slice(8).map { |line| "<li>#{line.join(' ')}</li>" }.join("\n")
  notes = record.comments.map { |c| "<i>#{c[:by]}</i>: #{c[:text].capitalize}" }.join("<br>")
  "#{head}<ul>\n#{body}\n</ul>#{notes}".gsub("w1", "W-1").tr("_", " ")
end

random = Random31.new(4141)
records = Array.new(9000) { |id| record(random, id) }
length = 0
sum = 0
3.times do |turn|
  pages = records.map { |r| render(r) }
  length += pages.sum(&:bytesize)
  sum = pages.reduce(sum) { |s, page| (s * 31 + page.count("w") + page.sum) % 1_000_000_007 }
  records.each_with_index { |_, i| records[i] = record(random, i + turn * 10_000) if (i + turn) % 7 == 0 }
end
index = Hash.new { |hash, key| hash[key] = [] }
records.each { |r| r.words.each { |word| index[word] << r.id } }
by_author = records.group_by(&:author).transform_values { |rs| rs.sort_by { |r| [-r.rating, r.id] }.first(3).map(&:title) }
common = index.sort_by { |word, ids| [-ids.size, word] }.first(50).map { |word, ids| "#{word}:#{ids.uniq.size}" }
puts [length, sum, index.size, by_author.values.flatten.join.bytesize, common.join(",").sum].join(" ")
