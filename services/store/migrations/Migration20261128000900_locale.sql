-- The language that the user has chosen, as a BCP 47 tag; null for none. E-mails are written in it.
alter table users add column locale varchar(35);
