// Package core has what the procedures of all areas share: the parts of their server, the bound on its log
// entries, and the order of requests that record the same row. It serves no procedure and knows no area.
package core
