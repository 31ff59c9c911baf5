// Program pagefixture has what the tests in a browser need of berth: test/ui is a module of its own.
//
//	pagefixture rows N    serves the page of a cluster with N rows of each kind, a tenth of which is
//	                      wrong, until its input ends
//	pagefixture issuer G  serves a provider of identities with a person of the group G until its input ends
//	pagefixture shelf ... is the process of the CSI plugin of package shelf
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/hashicorp/go-hclog"

	"berth/test/pagefixture/rows"
	"berth/test/shelf"
	"berth/ui"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "shelf" {
		os.Exit(shelf.Run(os.Args[2:]))
	}
	err := serve(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "rows":
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return serveRows(n)
	case len(args) == 2 && args[0] == "issuer":
		return serveIssuer(args[1])
	}
	return fmt.Errorf("usage: pagefixture rows N | issuer GROUP | shelf ...")
}

func serveRows(n int) error {
	api, end, err := rows.Cluster{Rows: n, Wrong: true}.NewAPI()
	if err != nil {
		return err
	}
	defer end()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	page := ui.NewHandler(ui.Config{API: api, Agent: "agent-1", Logger: hclog.NewNullLogger()})
	server := &http.Server{Handler: page}
	fmt.Printf("http://%s\n", ln.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	err = server.Serve(ln)
	if err == http.ErrServerClosed {
		return nil
	}
	return err
}
