package download

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// relay is an HTTP proxy through which git connects: git checks no addresses.
type relay struct {
	guard  *guard
	server *http.Server
	ln     net.Listener
	ended  chan struct{}
}

// newRelay starts a relay at an address of this process. The caller closes it.
func newRelay(g *guard) (*relay, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for git: %w", err)
	}

	r := &relay{guard: g, ln: ln, ended: make(chan struct{})}
	// A request without TLS comes with its whole URL.
	plain := &httputil.ReverseProxy{
		// A request to a proxy already has the URL of the server.
		Rewrite:   func(*httputil.ProxyRequest) {},
		Transport: g.transport(),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}

	r.server = &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			switch {
			// git asks for a tunnel to a server with TLS.
			case req.Method == http.MethodConnect:
				r.tunnel(w, req)
			case req.URL.IsAbs():
				plain.ServeHTTP(w, req)
			default:
				http.Error(w, "this is a proxy", http.StatusBadRequest)
			}
		}),
	}

	// close ends it and waits.
	go func() {
		defer close(r.ended)
		_ = r.server.Serve(ln)
	}()
	return r, nil
}

// close ends the server of the relay. A tunnel ends with its two connections.
func (r *relay) close() {
	_ = r.server.Close()
	<-r.ended
}

// tunnel serves a connection with TLS.
func (r *relay) tunnel(w http.ResponseWriter, req *http.Request) {
	there, err := r.connect(req.Context(), req.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()

	// git may have sent the begin of its bytes already. They are in buffered.
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer here.Close()

	_, err = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	if err == nil {
		exchange(there, buffered, here)
	}
}

// connect connects to HOST:PORT, through the proxy of the agent's environment if there is one.
func (r *relay) connect(ctx context.Context, address string) (net.Conn, error) {
	// Only TLS needs a tunnel, so the proxy for https counts.
	through, err := r.guard.proxy(&url.URL{Scheme: "https", Host: address})
	if err != nil {
		return nil, err
	}

	if through == nil {
		return r.guard.dial(ctx, "tcp", address)
	}

	if through.Scheme != "http" {
		return nil, fmt.Errorf("git goes through a proxy by http, not by %s", through.Scheme)
	}

	conn, err := r.guard.dial(ctx, "tcp", addressOf(through))
	if err != nil {
		return nil, err
	}

	conn, err = throughProxy(conn, through, address)
	if err != nil {
		return nil, fmt.Errorf("connecting through the proxy: %w", err)
	}

	return conn, nil
}

// throughProxy asks a proxy for a connection to HOST:PORT. It closes conn if it fails.
func throughProxy(conn net.Conn, proxy *url.URL, address string) (net.Conn, error) {
	req := &http.Request{
		Method: http.MethodConnect,
		URL:    &url.URL{Opaque: address},
		Host:   address,
		Header: http.Header{},
	}

	if proxy.User != nil {
		password, _ := proxy.User.Password()
		// net/http encodes a password only for a server, in another header.
		auth := &http.Request{Header: http.Header{}}
		auth.SetBasicAuth(proxy.User.Username(), password)
		req.Header.Set("Proxy-Authorization", auth.Header.Get("Authorization"))
	}

	err := req.Write(conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}

	// A server with TLS says nothing first, so nothing after the answer is in the buffer.
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}

	return conn, nil
}

// exchange copies in both directions until there is nothing more to read from conn.
func exchange(conn net.Conn, from io.Reader, to io.Writer) {
	// The goroutine ends with its connections, which the caller closes.
	go func() {
		_, _ = io.Copy(conn, from)
		// The server has all of the request now, and may still answer.
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, _ = io.Copy(to, conn)
}

// connectArg is the argument of Main with which git and ssh connect to a host and a port.
const connectArg = "connect"

// connect copies between a server and the standard input and output. text has Rules in JSON.
func connect(host, port, text string) int {
	var rules Rules
	err := json.Unmarshal([]byte(text), &rules)
	if err == nil {
		err = copyServer(newGuard(rules), net.JoinHostPort(host, port))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "artifact:", err)
		return 1
	}
	return 0
}

// copyServer copies until the server sends no more.
func copyServer(g *guard, address string) error {
	conn, err := g.dial(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	exchange(conn, os.Stdin, os.Stdout)
	return errors.Join(g.rejection(), conn.Close())
}

// guardGit makes git, and the ssh that it starts, connect by the guard alone. It sets variables of this
// process, from which git inherits them.
func guardGit(g *guard, at net.Addr) error {
	connector, err := writeConnector(g.rules)
	if err != nil {
		return err
	}

	// The operator may hand a command for ssh over, which stays.
	ssh := os.Getenv("GIT_SSH_COMMAND")
	if ssh == "" {
		ssh = "ssh"
	}

	proxy := "http://" + at.String()
	env := map[string]string{
		"http_proxy":         proxy,
		"https_proxy":        proxy,
		"GIT_CONFIG_COUNT":   "1", // above a file of the machine
		"GIT_CONFIG_KEY_0":   "http.proxy",
		"GIT_CONFIG_VALUE_0": proxy,
		"GIT_PROXY_COMMAND":  connector,
		"GIT_SSH_COMMAND":    ssh + " -o " + quote("ProxyCommand="+connector+" %h %p"),
	}

	if _, set := os.LookupEnv(lfsSwitch); !set {
		env[lfsSwitch] = "1" // it would connect by itself
	}

	// git may prefer another spelling, and must except no host from the proxy.
	others := []string{"no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"}
	for _, name := range others {
		err = errors.Join(err, os.Unsetenv(name))
	}

	for name, value := range env {
		err = errors.Join(err, os.Setenv(name, value))
	}

	return err
}

// writeConnector writes the program that connects git and ssh to a host and a port (see connect), and returns
// its path.
func writeConnector(allowed Rules) (string, error) {
	path := filepath.Join(os.TempDir(), "connect")
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}

	rules, err := json.Marshal(allowed)
	if err != nil {
		return "", err
	}

	// The first arguments lead the program to Main again.
	script := "#!/bin/sh\nexec"
	for _, arg := range append([]string{exe}, os.Args[1:]...) {
		script += " " + quote(arg)
	}

	script += ` connect "$1" "$2" ` + quote(string(rules)) + "\n"
	return path, os.WriteFile(path, []byte(script), 0o700)
}

// lfsSwitch is the variable that makes git-lfs leave its files alone.
const lfsSwitch = "GIT_LFS_SKIP_SMUDGE"

// quote makes one word of a shell of a text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
