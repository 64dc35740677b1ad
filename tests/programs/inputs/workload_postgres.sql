-- For PostgreSQL: sorts in memory and through files, joins, groups, two workers beside the session, functions, errors.
set jit = off;
set parallel_setup_cost = 0;
set min_parallel_table_scan_size = 0;
set work_mem = '256kB';

create table item (id int primary key, name text, size int, about jsonb);
insert into item
    select i, repeat(md5(i::text), 1 + i % 5), i * 7919 % 10007, jsonb_build_object('n', i, 'list', array[i, i + 1])
    from generate_series(1, 10000) i;
create table sale (item int references item, day date, amount numeric(12, 2));
insert into sale
    select 1 + i * 31 % 10000, date '2020-01-01' + i % 400, (i % 997) / 7.0 from generate_series(1, 30000) i;
create index on sale (day);
analyze;

select count(*), sum(size), md5(string_agg(name, ',' order by name desc, id)) from item;
select day, count(*), sum(amount) from sale join item on item = id
    where size % 3 = 1 group by day order by sum(amount) desc, day limit 5;
select sum(length(a.name)) from item a join item b on a.size = b.size + 1;
set work_mem = '16MB';
select md5(string_agg(about::text, '' order by size, id)), sum((about -> 'list' ->> 1)::int) from item;
select id, rank() over (partition by size % 10 order by size, id) from item order by 2 desc, 1 limit 3;

create function caught(turns int) returns int language plpgsql as $$
declare found int := 0;
begin
    for i in 1 .. turns loop
        begin
            insert into item values (i, 'again', 0, null);
        exception when unique_violation then found := found + 1;
        end;
    end loop;
    return found;
end $$;
select caught(1000);

update item set name = repeat(name, 100) where id % 20 = 0;
select sum(length(name)) from item;
delete from sale where day < '2020-06-01';
vacuum sale;
select count(*) from sale;
drop table sale, item;
select count(*) from pg_class where relname in ('sale', 'item');
