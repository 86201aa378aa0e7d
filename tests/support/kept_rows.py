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
