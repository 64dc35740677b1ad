-- A workload for sqlite3.
pragma journal_mode = wal;
create table item (id integer primary key, word text, number real, body blob);
begin;
insert into item
    with recursive counter (n) as (select 1 union all select n + 1 from counter where n < 60000)
    select n, 'word' || (n * 7919 % 5003), n * 0.25, zeroblob(n % 300) from counter;
commit;
create index by_word on item (word, number);
select count(*), sum(number), sum(length(body)) from item;
select word, count(*), max(number) from item group by word order by count(*) desc, word limit 20;
update item set word = word || '-' || id where id % 7 = 0;
delete from item where id % 11 = 0;
select a.word, count(*) from item a join item b on a.word = b.word and a.id < b.id
    group by a.word order by 2 desc, 1 limit 10;
create virtual table docs using fts5 (text);
insert into docs select 'text of ' || word || ' and ' || (id % 100) from item where id < 20000;
select count(*) from docs where docs match 'word17 OR 42';
select length(group_concat(word)) from item;
select json_extract(json_group_array(json_object('w', word)), '$[100].w') from item where id < 5000;
vacuum;
select count(*), sum(id) from item;
