// Package interop holds berth against a client that nobody here wrote: the public Go client of the
// dialect. It is a module of its own, so that the client never enters the product's dependencies.
package interop
