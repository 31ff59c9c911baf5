// Package pages has the HTML of the page: a component for each view, with the frame around it. Their sources
// are the files with the ending .templ, from which the program templ makes the Go files. To make them again
// after a change:
//
//	go generate ./ui/pages
//
// A component gets the data of its view as a parameter, calls nothing, and knows no HTTP. Its rules:
//
//   - Each text is escaped, and each address is one of http or https or a path. No component marks a text or
//     an address as safe.
//   - No element has a script, a handler or a style.
//   - A view works without the script of the page.
package pages

//go:generate go test . -run AreThoseOfTheirSources -update
