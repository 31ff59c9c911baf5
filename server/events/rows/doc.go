// Package rows makes the events of changed rows: for each table with events it has one function from the row
// before and the row now to the events. An event depends on nothing but these rows and the name of the
// command, so each server makes the same ones. No payload has a secret: a row is redacted as in the answers
// of the API.
package rows
