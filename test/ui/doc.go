// Package ui runs the page of a real agent in a real browser. It is a module of its own, so that the driver
// of the browser is no dependency of berth. `make test` runs it.
package ui
