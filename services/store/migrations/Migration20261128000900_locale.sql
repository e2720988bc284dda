-- The language that the owner of an account has chosen, as a BCP 47 tag; null for none. E-mails follow it.
alter table users add column locale varchar(35);
