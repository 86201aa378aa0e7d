"""Procedures of the database that tests share: to empty its tables, and to put rows back into them.

PostgreSQL keeps the plans of their statements, because they name all tables. Triggers do not run: neither
those that keep the audit nor those of foreign keys.
"""

# Writes the procedure that empties the tables. A test that left a transaction open is found at the row that
# it holds.
REMEMBER = """
CREATE SCHEMA kept;
DO $do$
DECLARE
  name text;
  used boolean;
  statements text := '';
BEGIN
  FOR name IN SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
  LOOP
    statements := statements || format(
      'IF EXISTS (SELECT FROM public.%1$I) THEN DELETE FROM public.%1$I; ', name);
    EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', name) INTO used;
    IF used THEN
      EXECUTE format('CREATE TABLE kept.%I AS TABLE public.%I', name, name);
      statements := statements || format('INSERT INTO public.%1$I SELECT * FROM kept.%1$I; ', name);
    END IF;
    statements := statements || 'END IF; ';
  END LOOP;
  EXECUTE format($$
    CREATE PROCEDURE kept.empty() LANGUAGE plpgsql AS %L
  $$, $$BEGIN
    SET LOCAL session_replication_role = replica;
    SET LOCAL lock_timeout = '10s';
    $$ || statements || 'END');
END $do$;
"""

# Copies all rows into a schema of their own, and writes the procedure that puts them back. Times are then as
# long ago as they were when the rows were copied.
KEEP = """
DROP SCHEMA IF EXISTS {schema} CASCADE;
CREATE SCHEMA {schema};
DO $do$
DECLARE
  name text;
  used boolean;
  names text;
  columns text;
  statements text := '';
BEGIN
  FOR name IN SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
  LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', name) INTO used;
    CONTINUE WHEN NOT used OR to_regclass(format('kept.%I', name)) IS NOT NULL;
    EXECUTE format('CREATE TABLE {schema}.%I AS TABLE public.%I', name, name);
    SELECT string_agg(quote_ident(attname), ', '),
           string_agg(CASE atttypid WHEN 'timestamptz'::regtype THEN format('%I + later', attname)
                                    ELSE quote_ident(attname) END, ', ')
      INTO names, columns FROM pg_attribute
      WHERE attrelid = format('public.%I', name)::regclass AND attnum > 0
        AND NOT attisdropped AND attgenerated = '';
    statements := statements || format(
      'INSERT INTO public.%I (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM {schema}.%I; ',
      name, names, columns, name);
  END LOOP;
  EXECUTE format($$
    CREATE PROCEDURE {schema}.put_back() LANGUAGE plpgsql AS %L
  $$, format($$DECLARE later interval := now() - %L::timestamptz;
  BEGIN
    SET LOCAL session_replication_role = replica;
    $$, now()) || statements || 'END');
END $do$;
"""

# Writes the procedure that plants a neighbour of each supplier: one of the same organisation with the same
# rows, under other keys, which begin with 10^9 or ffffffff. What reads or changes it forgot to ask whose a
# row is. It replaces those that were planted before. No batch, plan or undo of a neighbour goes on. A view
# has a sum of the neighbours' rows of each table, by which is seen that they were left alone.
PLANT = """
DO $do$
DECLARE
  name text;
  key text;
  names text;
  planted text;
  statements text := '';
  sums text[];
BEGIN
  FOR name, key IN
    SELECT relname, format(CASE atttypid WHEN 'int8'::regtype THEN '%I >= 1000000000'
                           ELSE '%I >= ''ffffffff-0000-0000-0000-000000000000''' END, attname)
    FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
    JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
    WHERE indisprimary AND relnamespace = 'public'::regnamespace
      AND atttypid IN ('uuid'::regtype, 'int8'::regtype) AND relname !~
      '^(organi|operat|payment_v|service|backup|api|alert|token|refresh|idem|event|webhook|audit)'
  LOOP
    SELECT string_agg(quote_ident(attname), ', '), string_agg(format(CASE
        WHEN atttypid = 'uuid'::regtype THEN 'overlay(%I::text PLACING ''ffffffff'' FROM 1)::uuid'
        WHEN attname ~ '^(id|import_supplier_id|.*process_id|.*_pk)$' AND attname <> 'payment_vendor_pk'
          THEN '%I + 1000000000'
        WHEN attname IN ('code', 'service_account_number', 'idempotency_key') THEN '''N'' || %I'
        WHEN name = 'batch' AND attname = 'state' THEN 'replace(%I, ''RUNNING'', ''PAUSED'')'
        WHEN attname = 'finished_at' AND name IN ('wave_plan', 'comparison', 'certificate', 'undo')
          THEN 'coalesce(%I, now())'
        ELSE '%I' END, attname), ', ')
      INTO names, planted FROM pg_attribute
      WHERE attrelid = format('public.%I', name)::regclass AND attnum > 0 AND NOT attisdropped;
    statements := statements || format(
      'IF EXISTS (SELECT FROM public.%1$I) THEN DELETE FROM public.%1$I WHERE %2$s;
         INSERT INTO public.%1$I (%3$s) OVERRIDING SYSTEM VALUE SELECT %4$s FROM public.%1$I; END IF; ',
      name, key, names, planted);
    sums := sums || format(
      'SELECT %1$L AS name, sum(hashtextextended(it::text, 0)) FROM public.%1$I AS it WHERE %2$s', name, key);
  END LOOP;
  EXECUTE 'CREATE VIEW kept.neighbours AS ' || array_to_string(sums, ' UNION ALL ');
  CREATE TABLE kept.planted AS TABLE kept.neighbours;
  EXECUTE format('CREATE PROCEDURE kept.plant() LANGUAGE plpgsql AS %L', '#variable_conflict use_column
    BEGIN SET LOCAL session_replication_role = replica; ' || statements ||
    'DELETE FROM kept.planted; INSERT INTO kept.planted TABLE kept.neighbours; END');
END $do$;
"""
