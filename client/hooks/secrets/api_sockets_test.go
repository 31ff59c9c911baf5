package secrets

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/client/hooks"
	"berth/internal/opsocket"
	"berth/structs"
	"berth/test/kit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apiFixture is a node with one task, in a directory whose path is longer than that of a socket may be.
type apiFixture struct {
	t       *testing.T
	env     *hooks.AllocEnv
	secrets string
	sockets *APISockets
	hook    hooks.Task
	stop    func()
	waits   chan struct{} // receives one for each request of /wait
}

func newAPIFixture(t *testing.T) *apiFixture {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	fx := &apiFixture{
		t:       t,
		env:     &hooks.AllocEnv{Dir: dir},
		secrets: filepath.Join(dir, "web", "secrets"),
		waits:   make(chan struct{}, 1),
	}
	kit.Must(t, os.MkdirAll(fx.secrets, 0o700))
	fx.agent()
	t.Cleanup(func() { fx.stop() })
	return fx
}

// agent starts the part of an agent. Its requests are answered with the word of their header.
func (fx *apiFixture) agent() {
	fx.sockets = NewAPISockets(hclog.NewNullLogger())
	fx.sockets.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if opsocket.Marked(r.Context()) {
			fx.t.Error("a task has the rights of the operator socket")
		}
		if r.URL.Path == "/wait" {
			fx.waits <- struct{}{}
			<-r.Context().Done()
		}
		_, _ = w.Write([]byte(r.Header.Get("X-Nomad-Token")))
	}))
	fx.hook = fx.sockets.Hook(fx.env, &structs.Task{Name: "web"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		fx.sockets.Run(ctx)
	}()
	fx.stop = func() {
		cancel()
		<-done
	}
}

func (fx *apiFixture) up() error { return fx.hook.Up(fx.t.Context(), &hooks.TaskEnv{AllocEnv: fx.env}) }

// dial connects to the socket as its task does, by a short path.
func (fx *apiFixture) dial(ctx context.Context) (net.Conn, error) {
	at, err := openDir(fx.secrets)
	if err != nil {
		return nil, err
	}
	defer func() { _ = at.Close() }()
	return (&net.Dialer{}).DialContext(ctx, "unix", inDir(at, "api.sock"))
}

// ask sends a request and returns the status of its answer.
func (fx *apiFixture) ask(path string) (int, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return fx.dial(ctx)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://localhost" + path)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// TestSocket_ServesUntilTheEndOfTheTask also calls Up again, as for a restart of the task.
func TestSocket_ServesUntilTheEndOfTheTask(t *testing.T) {
	fx := newAPIFixture(t)
	for range 2 {
		kit.Must(t, fx.up())
		status, err := fx.ask("/")
		if err != nil || status != http.StatusOK {
			t.Errorf("got %d, %v", status, err)
		}
	}
	kit.Must(t, fx.hook.Down(t.Context()))
	_, err := os.Lstat(filepath.Join(fx.secrets, "api.sock"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	kit.Must(t, fx.hook.Down(t.Context()))
	kit.Must(t, os.RemoveAll(fx.secrets))
	kit.Must(t, fx.hook.Down(t.Context()))
}

// TestSocket_IsMadeAnewByTheNextAgent keeps its file at the end of an agent.
func TestSocket_IsMadeAnewByTheNextAgent(t *testing.T) {
	fx := newAPIFixture(t)
	kit.Must(t, fx.up())
	fx.stop()
	if _, err := fx.ask("/"); err == nil {
		t.Error("a socket of an agent that has ended answers")
	}
	if _, err := os.Lstat(filepath.Join(fx.secrets, "api.sock")); err != nil {
		t.Error(err)
	}
	kit.Must(t, fx.up()) // it opens none
	if _, err := fx.ask("/"); err == nil {
		t.Error("the agent has opened a socket after its end")
	}
	fx.agent()
	kit.Must(t, fx.up())
	status, err := fx.ask("/")
	if err != nil || status != http.StatusOK {
		t.Errorf("got %d, %v", status, err)
	}
}

// TestSocket_EndsWaitingRequestsWithTheTask ends a request that waits for a change: its handler answers, and
// nothing breaks its connection.
func TestSocket_EndsWaitingRequestsWithTheTask(t *testing.T) {
	fx := newAPIFixture(t)
	kit.Must(t, fx.up())
	conn, err := fx.dial(t.Context())
	kit.Must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	kit.Must(t, err)
	<-fx.waits
	kit.Must(t, fx.hook.Down(t.Context()))
	kit.Must(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("got %q, %v", answer, err)
	}
}

func TestServeHTTP_IsUnavailableBeforeItsHandler(t *testing.T) {
	fx := newAPIFixture(t)
	fx.sockets.handler.Store(nil)
	kit.Must(t, fx.up())
	status, err := fx.ask("/")
	if err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("got %d, %v", status, err)
	}
}

// TestListen_ChangesNoFileOfTheHost has links in the place of the socket and of its directory.
func TestListen_ChangesNoFileOfTheHost(t *testing.T) {
	fx := newAPIFixture(t)
	host := filepath.Join(t.TempDir(), "host")
	kit.Must(t, os.WriteFile(host, nil, 0o600))
	path := filepath.Join(fx.secrets, "api.sock")
	kit.Must(t, os.Symlink(host, path))
	kit.Must(t, fx.up()) // the link goes
	kit.Must(t, fx.hook.Down(t.Context()))

	// A task that is quicker than the agent puts a link there between the steps.
	at, err := openDir(fx.secrets)
	kit.Must(t, err)
	defer func() { _ = at.Close() }()
	kit.Must(t, os.Symlink(host, path))
	if err := openToAll(at, "api.sock"); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("a link: got %v", err)
	}
	kit.Must(t, os.Remove(path))
	kit.Must(t, os.Link(host, path))
	if err := openToAll(at, "api.sock"); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("a hard link: got %v", err)
	}
	// A socket of the agent itself, for example that of its operators, passes for one of the task.
	kit.Must(t, os.Remove(path))
	operators := filepath.Join(filepath.Dir(host), "operators")
	ln, err := net.Listen("unix", operators)
	kit.Must(t, err)
	defer func() { _ = ln.Close() }()
	kit.Must(t, os.Chmod(operators, 0o600))
	kit.Must(t, os.Link(operators, path))
	if err := openToAll(at, "api.sock"); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("a link to another socket: got %v", err)
	}
	kit.Must(t, os.Remove(path))
	if os.Geteuid() == 0 {
		kit.Must(t, os.Rename(operators, path))
		kit.Must(t, os.Chown(path, 1234, 1234))
		if err := openToAll(at, "api.sock"); !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("a socket of another user: got %v", err)
		}
		kit.Must(t, os.Rename(path, operators))
	}
	for _, file := range []string{host, operators} {
		info, err := os.Stat(file)
		kit.Must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", file, info.Mode())
		}
	}

	kit.Must(t, os.RemoveAll(fx.secrets))
	kit.Must(t, os.Symlink(t.TempDir(), fx.secrets))
	if err := fx.up(); err == nil {
		t.Error("a socket was opened behind a link")
	}
}

// TestSocket_IsForTheUserOfTheTask connects as the owner of the directory and as another user.
func TestSocket_IsForTheUserOfTheTask(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it changes owners")
	}
	dir, err := os.MkdirTemp("/tmp", "s")
	kit.Must(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	kit.Must(t, os.Chmod(dir, 0o755))
	fx := newAPIFixture(t)
	fx.secrets = filepath.Join(dir, "web", "secrets")
	fx.env.Dir = dir
	kit.Must(t, os.MkdirAll(fx.secrets, 0o700))
	kit.Must(t, os.Chmod(filepath.Dir(fx.secrets), 0o755))
	kit.Must(t, os.Chown(fx.secrets, 1234, 1234))
	fx.hook = fx.sockets.Hook(fx.env, &structs.Task{Name: "web"})
	kit.Must(t, fx.up())
	for user, want := range map[uint32]bool{1234: true, 4321: false} {
		cmd := exec.Command("perl", "-MIO::Socket::UNIX", "-e",
			"exit(IO::Socket::UNIX->new(Peer => $ARGV[0]) ? 0 : 1)", filepath.Join(fx.secrets, "api.sock"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		out, err := cmd.CombinedOutput()
		if (err == nil) != want {
			t.Errorf("user %d: got %v, %s", user, err, out)
		}
	}
}
