// Package ui serves the page of an agent at /ui/: views of the cluster, drawn on the server.
//
// Its rules:
//
//   - The page calls the HTTP API in process, with the token of its caller (see inprocess.go). It shows
//     and does nothing that the API does not show to that caller or do for them.
//   - A view reads one page of rows. Filters, order and pages are those of the API.
//   - All files are in the binary. The policy of the page allows no script in a page, no style in an element
//     and no request to another host.
//   - A token stays in the agent (see sessions.go). A browser keeps the ID of a session in a cookie that
//     no script can read, and sends it to /ui alone.
//   - Each text and each address is escaped by the components of package pages.
//   - Every view works without the script. With it, a view follows the events of the cluster.
package ui
