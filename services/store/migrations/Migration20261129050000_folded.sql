-- The form in which names and addresses of people are searched: `searchable`, in which letters also match whose upper case is
-- the same: the dotted and dotless i of Turkish, both forms of a Greek sigma, ß and ss. Earlier releases use `searchable` here.
do $migration$
declare
  folding text := (select quote_ident(collname) from pg_collation
    where collname in ('pg_c_utf8', 'und-x-icu', 'C') and collnamespace = 'pg_catalog'::regnamespace
      and collencoding in (-1, pg_char_to_encoding('UTF8'))
    order by array_position(array['pg_c_utf8', 'und-x-icu', 'C'], collname::text) limit 1);
begin
  execute format($statement$
    create function folded(text) returns text language sql immutable parallel safe as $function$
      select case when octet_length($1) = length($1) then lower($1 collate "C") else translate(
        replace(replace(lower(normalize($1, NFKC) collate %s), E'i\u0307', 'i'), 'ß', 'ss'),
        'ςı' || E'\u058a\u05be\u1400\u1806\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e17\u2e1a\u2e3a\u2e3b\u2e40\u2e5d\u301c\u3030\u30a0\U00010ead'
          || E'\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff',
        'σi' || repeat('-', 21)) collate "C" end
    $function$ $statement$, folding);
end $migration$
