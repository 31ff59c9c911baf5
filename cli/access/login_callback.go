package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"berth/structs"
)

const (
	// loginTime is how long the servers take the answer of the provider.
	loginTime         = 10 * time.Minute
	callbackPath      = "/oidc/callback"
	maxCallbackHeader = 32 << 10 // bytes
)

// callback is the server to which a provider sends the browser back.
type callback struct {
	address string // for the provider
	server  *http.Server
	ended   chan struct{}
	visits  chan visit
}

// visit is a request of a browser.
type visit struct {
	query url.Values
	ours  chan bool // gets whether it is of this login; buffered, because the browser may be gone
}

// listenForCallback serves an address. The port of "localhost:0" is any free one.
func listenForCallback(addr string) (*callback, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, structs.Preconditionf("the address for the browser, -oidc-callback-addr: %w", err)
	}

	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		host = "localhost"
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, structs.Internalf("the address of a listener: %w", err)
	}
	b := &callback{
		address: "http://" + net.JoinHostPort(host, port) + callbackPath,
		ended:   make(chan struct{}),
		visits:  make(chan visit),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callbackPath, b.serve)
	b.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      time.Minute,
		MaxHeaderBytes:    maxCallbackHeader,
	}
	go func() {
		defer close(b.ended)
		_ = b.server.Serve(l) // it ends by close
	}()
	return b, nil
}

// close waits for the answers to the browser, for a short time.
func (b *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := b.server.Shutdown(ctx)
	if err != nil {
		_ = b.server.Close()
	}
	<-b.ended
}

func (b *callback) serve(w http.ResponseWriter, r *http.Request) {
	v := visit{query: r.URL.Query(), ours: make(chan bool, 1)}
	select {
	case b.visits <- v:
	case <-r.Context().Done():
		return
	}

	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	select {
	case ours := <-v.ours:
		if !ours {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "This is not the login that the command waits for.\n")
			return
		}
		_, _ = io.WriteString(w, "The command berth login has the answer of the provider. You may close "+
			"this page.\n")
	case <-r.Context().Done():
	}
}

// wait returns the query of the browser. It takes none with another state: a page could send the browser here
// with the login of somebody else.
func (b *callback) wait(ctx context.Context, state string) (url.Values, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	for {
		select {
		case v := <-b.visits:
			q := v.query
			ours := subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) == 1
			v.ours <- ours
			if !ours {
				continue
			}
			if fault := q.Get("error"); fault != "" {
				return nil, structs.Deniedf("the provider has rejected the login: %s %s",
					structs.Cut(fault, structs.MaxQuoted),
					structs.Cut(q.Get("error_description"), structs.MaxQuoted))
			}
			return q, nil
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, structs.Timeoutf("nobody has logged in within %s; run the command again",
					loginTime)
			}
			return nil, ctx.Err()
		}
	}
}
