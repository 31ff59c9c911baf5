// Package variable has the rows of variables and their locks, and the requests that read and write them.
//
// Rows have the items in encrypted form. Rules for paths and items are in structs/validate.
package variable
