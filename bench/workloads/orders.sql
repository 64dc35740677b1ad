-- A shop's data in memory: tables filled by recursion, indexes, joins, windows, text, JSON, and
-- updates in a transaction. Prints a few lines that depend on every result.
PRAGMA cache_size = -200000;
PRAGMA temp_store = MEMORY;

CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, city TEXT, joined INTEGER);
CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, price INTEGER, note TEXT);
CREATE TABLE item (id INTEGER PRIMARY KEY, customer INTEGER, product INTEGER, amount INTEGER,
                   day INTEGER, remark TEXT);

BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO customer
SELECT i, printf('customer %05d of %x', i, i * 7919), 'city ' || (i * 31 % 397), i % 3650 FROM n;

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
INSERT INTO product
SELECT i, printf('product %04d', i), 100 + i * 7907 % 9901,
       substr(replace(hex(zeroblob(200)), '00', printf('%x ', i)), 1, i % 400) FROM n;

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO item
SELECT i, 1 + i * 7919 % 20000, 1 + i * 104729 % 4000, 1 + i % 9, i * 13 % 3650,
       CASE i % 5 WHEN 0 THEN printf('remark %d on %d, to be read by %s', i, i * 17, i % 23) END
FROM n;
COMMIT;

CREATE INDEX item_customer ON item (customer, day);
CREATE INDEX item_product ON item (product);
CREATE INDEX customer_city ON customer (city, name);
ANALYZE;

SELECT 'cities', count(*), sum(total) FROM (
    SELECT city, sum(amount * price) AS total
    FROM item JOIN customer ON customer.id = item.customer JOIN product ON product.id = product
    GROUP BY city HAVING total > 1000 ORDER BY total DESC);

SELECT 'windows', sum(place * running) FROM (
    SELECT row_number() OVER (PARTITION BY customer ORDER BY day, id) AS place,
           sum(amount) OVER (PARTITION BY customer ORDER BY day, id) AS running
    FROM item WHERE customer % 4 = 1);

SELECT 'words', count(DISTINCT lower(name) || remark), total(length(group_remarks)) FROM (
    SELECT customer.name, remark, group_concat(remark, '; ') AS group_remarks
    FROM item JOIN customer ON customer.id = customer
    WHERE remark IS NOT NULL GROUP BY customer.city, customer.id);

SELECT 'json', sum(length(document)), sum(json_extract(document, '$.items[1].amount')) FROM (
    SELECT json_object('customer', customer, 'items',
                       json_group_array(json_object('product', product, 'amount', amount)))
           AS document
    FROM item WHERE customer <= 5000 GROUP BY customer);

BEGIN;
UPDATE item SET remark = coalesce(remark, '') || ' seen ' || day WHERE product % 7 = 3;
DELETE FROM item WHERE day % 11 = 5;
COMMIT;

SELECT 'left', count(*), sum(length(remark)), max(remark) FROM item;
SELECT 'like', count(*) FROM customer WHERE name LIKE '%7f%' OR name LIKE '%of a%';
