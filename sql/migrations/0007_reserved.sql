-- Nothing: another branch brings this number.
SELECT 1;
