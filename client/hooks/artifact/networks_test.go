package artifact

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/test/kit"
)

const rejection = "client.artifact.allow_networks"

// listenAt listens at an address of the node and counts the connections.
func listenAt(t *testing.T, ip string) (ln net.Listener, count *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	l := &countingListener{Listener: ln}
	t.Cleanup(func() { _ = ln.Close() })
	return l, &l.count
}

type countingListener struct {
	net.Listener
	count atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.count.Add(1)
	}
	return conn, err
}

// serveAt serves at an address of the node and counts the connections.
func serveAt(t *testing.T, ip string, h http.Handler) (s *httptest.Server, count *atomic.Int64) {
	t.Helper()
	s = httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener, count = listenAt(t, ip)
	s.Start()
	t.Cleanup(s.Close)
	return s, count
}

// closeAll accepts connections and closes them.
func closeAll(ln net.Listener, done chan<- struct{}) {
	defer close(done)
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

// limitTime makes a download fail that waits for a server which it must not reach.
func (f *fixture) limitTime() {
	f.cfg.Settings.HTTPReadTimeout = patience
	f.cfg.Settings.GitTimeout = patience
}

func git(t *testing.T, dir, script string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		kit.SkipLacking(t, "git")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// A source and each redirect of it may lead to a loopback address.
func TestUp_RejectsSpecialNetworks(t *testing.T) {
	secret, reached := serveAt(t, "127.0.0.1", http.NotFoundHandler())
	_, port, err := net.SplitHostPort(secret.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	repo := t.TempDir()
	git(t, repo, `git init -q -b main w && cd w && echo hello >x && git add .
		git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,s
		printf '[submodule "s"]\npath=s\nurl=`+secret.URL+`/s.git\n' >.gitmodules && git add .gitmodules
		git commit -q -m 1; cd ..; git clone -q --bare w w.git; git -C w.git update-server-info`)
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(repo)))
	mux.Handle("/to/", http.StripPrefix("/to", http.RedirectHandler(secret.URL+"/x", http.StatusFound)))
	mux.Handle("/git/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, secret.URL+r.URL.RequestURI(), http.StatusFound)
	}))
	mux.HandleFunc("/file", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
	allowed, _ := serveAt(t, "127.0.0.2", mux)
	for _, a := range []*structs.TaskArtifact{
		artifact("http://127.0.0.1:" + port + "/x"),
		artifact("http://localhost:" + port + "/x"),
		artifact("http://0.0.0.0:" + port + "/x"),
		artifact("http://[::ffff:127.0.0.1]:" + port + "/x"),
		artifact("http://0x7f000001:" + port + "/x"),
		artifact("https://127.0.0.1:" + port + "/x"),
		artifact(allowed.URL + "/to/x"),
		artifact(allowed.URL+"/file", withOption("checksum", "file:"+secret.URL+"/sums")),
		artifact("git::http://127.0.0.1:" + port + "/r.git"),
		artifact("git::https://localhost:" + port + "/r.git"),
		artifact("git::git://localhost:" + port + "/r.git"),
		artifact("git::ssh://git@localhost:" + port + "/r.git"),
		artifact("git::" + allowed.URL + "/git/r.git"),
		artifact("git::" + allowed.URL + "/w.git"), // with a submodule
	} {
		t.Run(strings.ReplaceAll(a.GetterSource, "/", "_"), func(t *testing.T) {
			f := newFixture(t)
			f.cfg.Settings.AllowNetworks = []string{"127.0.0.2/32"}
			f.limitTime()
			err := f.up(t.Context(), a)
			named := err != nil && strings.Contains(err.Error(), rejection)
			if !named && !strings.Contains(a.GetterSource, "0x7f") {
				t.Errorf("got %v, want a rejection that names the setting", err)
			}
			if n := reached.Load(); n > 0 {
				t.Errorf("it has connected to the loopback address %d times", n)
				reached.Store(0)
			}
			f.checkUntouched()
		})
	}
}

// A server of artifacts may be beside the agent, at an address of the node that others reach.
func TestUp_DownloadsFromTheNode(t *testing.T) {
	f := newFixture(t)
	f.cfg.Settings.AllowNetworks = nil
	f.limitTime()
	repo := t.TempDir()
	git(t, repo, `git init -q -b main w && cd w && echo hello >x && git add . && git commit -q -m 1
		cd .. && git clone -q --bare w w.git && git -C w.git update-server-info`)
	s, _ := serveAt(t, outerAddress(t), http.FileServer(http.Dir(repo)))
	f.mustUp(artifact(s.URL+"/w/x"), artifact("git::"+s.URL+"/w.git", withDest("local/r")))
	for _, name := range []string{"web/local/x", "web/local/r/x"} {
		if got := f.tree()[name]; got != "hello\n" {
			t.Errorf("%s has %q", name, got)
		}
	}
}

// The agent listens at all addresses of the node, and a redirect may lead to any of them.
func TestUp_RejectsTheAgentAtTheAddressesOfTheNode(t *testing.T) {
	agent, reached := serveAt(t, outerAddress(t), http.NotFoundHandler())
	address := agent.Listener.Addr().String()
	f := newFixture(t)
	f.limitTime()
	f.mux.Handle("/to/", http.StripPrefix("/to", http.RedirectHandler(agent.URL+"/x", http.StatusFound)))
	f.mux.Handle("/git/", http.RedirectHandler(agent.URL+"/r.git/info/refs", http.StatusFound))
	f.cfg.AgentPorts = []int{1, agent.Listener.Addr().(*net.TCPAddr).Port}
	for _, source := range []string{
		agent.URL + "/x",
		"${URL}/to/x",
		"git::${URL}/git/r.git",
		"git::" + agent.URL + "/r.git",
		"git::https://" + address + "/r.git",
		"git::git://" + address + "/r.git",
		"git::ssh://git@" + address + "/r.git",
	} {
		err := f.up(t.Context(), artifact(source))
		if err == nil || !strings.Contains(err.Error(), rejection) || reached.Load() > 0 {
			t.Errorf("%s: got %v after %d connections", source, err, reached.Load())
		}
	}
	f.checkUntouched()
}

// outerAddress returns an address of the node that is not special.
func outerAddress(t *testing.T) string {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		network, ok := a.(*net.IPNet)
		if ok && network.IP.IsGlobalUnicast() {
			return network.IP.String()
		}
	}
	kit.SkipLacking(t, "an address that is neither loopback nor link-local")
	return ""
}

// The connections of git by its own protocol and by ssh work where they are allowed.
func TestUp_ConnectsGit(t *testing.T) {
	repo := t.TempDir()
	git(t, repo, `git init -q -b main w && cd w && echo hello >x && git add . && git commit -q -m 1
		cd .. && git clone -q --bare w w.git`)
	free, _ := listenAt(t, "127.0.0.1")
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	daemon := exec.Command("git", "daemon", "--listen=127.0.0.1", fmt.Sprint("--port=", port), "--export-all",
		"--base-path="+repo, "--verbose")
	daemon.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	said, err := daemon.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = unix.Kill(-daemon.Process.Pid, unix.SIGKILL)
		_ = daemon.Wait()
	}()
	_, err = said.Read(make([]byte, 100)) // "Ready to rumble"
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.limitTime()
	f.mustUp(artifact(fmt.Sprintf("git::git://localhost:%d/w.git", port), withDest("local/r")))
	if got := f.tree(); got["web/local/r/x"] != "hello\n" {
		t.Errorf("got %q", got)
	}
	ln, reached := listenAt(t, "127.0.0.1")
	done := make(chan struct{})
	go closeAll(ln, done)
	err = f.up(t.Context(), artifact("git::ssh://git@"+ln.Addr().String()+"/w.git", withDest("local/s")))
	_ = ln.Close()
	<-done
	if err == nil || strings.Contains(err.Error(), rejection) || reached.Load() == 0 {
		t.Errorf("by ssh: %v after %d connections", err, reached.Load())
	}
}

// proxyHandler sends every request to one server.
func proxyHandler(server string) http.Handler {
	plain := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", server
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			plain.ServeHTTP(w, r)
			return
		}
		there, err := net.Dial("tcp", server)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer there.Close()
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, here) }()
		_, _ = io.Copy(here, there)
	})
}

// The operator's proxy may be on the node. It does not lead a download to a loopback address.
func TestUp_UsesTheProxyOfTheAgent(t *testing.T) {
	repo := t.TempDir()
	git(t, repo, `git init -q -b main w && cd w && echo hello >x && git add . && git commit -q -m 1
		cd .. && git clone -q --bare w w.git && git -C w.git update-server-info`)
	files := http.NewServeMux()
	files.Handle("/", http.FileServer(http.Dir(repo)))
	plain := httptest.NewServer(files)
	defer plain.Close()
	secure := httptest.NewTLSServer(http.FileServer(http.Dir(repo)))
	defer secure.Close()
	forPlain, _ := serveAt(t, "127.0.0.1", proxyHandler(plain.Listener.Addr().String()))
	forSecure, _ := serveAt(t, "127.0.0.1", proxyHandler(secure.Listener.Addr().String()))
	_, port, err := net.SplitHostPort(forPlain.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	itself := "http://localhost:" + port
	files.Handle("/back/", http.StripPrefix("/back", http.RedirectHandler(itself+"/w/x", http.StatusFound)))
	t.Setenv("http_proxy", itself)
	t.Setenv("https_proxy", forSecure.URL)
	t.Setenv("no_proxy", "127.0.0.0/8")
	f := newFixture(t)
	f.limitTime()
	f.cfg.Settings.AllowNetworks = nil
	f.cfg.Settings.SetEnvironmentVariables = "http_proxy, https_proxy, no_proxy"
	insecure := artifact("git::https://files.invalid/w.git", withDest("local/secure"))
	insecure.GetterInsecure = true
	f.mustUp(
		artifact("http://files.invalid/w/x"),
		artifact("git::http://files.invalid/w.git", withDest("local/plain")),
		insecure)
	got := f.tree()
	for _, name := range []string{"x", "plain/x", "secure/x"} {
		if got["web/local/"+name] != "hello\n" {
			t.Errorf("%s has %q", name, got["web/local/"+name])
		}
	}
	for source, want := range map[string]string{
		plain.URL + "/w/x":                    rejection,
		forPlain.URL + "/w/x":                 rejection,
		"git::" + plain.URL + "/w.git":        rejection,
		"http://169.254.169.254/w/x":          rejection,
		"git::http://169.254.169.254/w.git":   rejection,
		"git::https://[fe80::1]/w.git":        rejection,
		"http://[::ffff:169.254.169.254]/w/x": rejection,
		"http://files.invalid/back/x":         "it is the proxy of the agent",
	} {
		a := artifact(source)
		a.GetterInsecure = true
		err := f.up(t.Context(), a)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", source, err)
		}
	}
}
