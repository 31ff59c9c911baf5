// Package events keeps the newest events of one server in bounded memory and gives them to readers. Ring
// knows no tables: a Maker makes the events of changed rows.
//
// The way of a write only appends the pointers of its rows here. The first reader that gets to an entry has
// its events made, and each payload is encoded once, for the first reader that wants it. So a write does not
// wait for a reader, and without readers no event is made.
//
// RowMaker has for each table with events one function from the row before and the row now to the events. An
// event depends on nothing but these rows and the name of the command, so each server makes the same ones. No
// payload has a secret: a row is redacted as in the answers of the API.
package events

// New returns an empty ring for the events of all tables.
func New(s Settings) *Ring { return NewRing(s, RowMaker{}) }
