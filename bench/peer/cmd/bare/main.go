// Command bare answers the requests of the rows of services over HTTP at once, without doing what they ask.
// Its CPU time goes to net/http and the connections alone.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
)

const (
	registered = `{"EvalID":"5b8c6c2e-6c7f-9d70-a2f0-1f7c0c3d8a52","EvalCreateIndex":1000,"JobModifyIndex":1000,` +
		`"Warnings":"","Index":1000,"LastContact":0,"KnownLeader":false}`
	placed = `{"JobID":"service","Namespace":"default","Summary":{"group":{"Queued":0,"Complete":0,"Failed":0,` +
		`"Running":0,"Starting":10,"Lost":0,"Unknown":0}},"CreateIndex":1000,"ModifyIndex":1000}`
)

func main() {
	addr := flag.String("addr", "127.0.0.1:24746", "address to listen on")
	flag.Parse()
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, registered)
	})
	mux.HandleFunc("GET /v1/job/{id}/summary", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, placed)
	})
	err := http.ListenAndServe(*addr, mux)
	fmt.Fprintln(os.Stderr, "bare:", err)
	os.Exit(1)
}

func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body) // an error means that the client has gone
}
