package ui

import (
	"net/http"
	"net/url"
	"strings"
)

// This file leads the addresses of the dialect's page to the views of berth's page. The command line of the
// dialect prints such addresses, and people keep them.

// viewOfWord has the view of one thing by the word that stands before its ID in an address of the dialect.
var viewOfWord = map[string]string{
	"jobs":        "job",
	"allocations": "allocation",
	"clients":     "node",
}

// handleLinks makes a mux redirect these addresses. All paths of the page begin with root.
func handleLinks(mux *http.ServeMux, root string) {
	for word, view := range viewOfWord {
		mux.HandleFunc("GET "+root+word+"/{id...}", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, root+pathOf(view, r.PathValue("id"), r.FormValue("namespace")), http.StatusFound)
		})
	}
}

// pathOf returns the path of a view below the root. An ID may be followed by @ and its namespace.
func pathOf(view, id, namespace string) string {
	if id == "" {
		return view + "s" // the list
	}
	query := url.Values{"id": {id}}
	if at := strings.LastIndex(id, "@"); at > 0 && view == "job" {
		query.Set("id", id[:at])
		namespace = id[at+1:]
	}
	if namespace == "" {
		namespace = "default"
	}
	if view != "node" { // nodes are in no namespace
		query.Set("namespace", namespace)
	}
	return view + "?" + query.Encode()
}
