package connect

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/consul"
	"berth/structs"
)

const tokenID = "1d1b9d3c-0000-4000-8000-0000000be27b"

// fakeNativeConsul answers as a test says.
type fakeNativeConsul struct {
	access consul.Access
	err    error
}

// Access implements NativeConsul.
func (c *fakeNativeConsul) Access() (*consul.Access, error) { return &c.access, c.err }

// nativeFixture is a task with the environment A=b.
type nativeFixture struct {
	t      *testing.T
	consul fakeNativeConsul
	env    *hooks.TaskEnv
}

func newNativeFixture(t *testing.T, mode string) *nativeFixture {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "api")
	dirs := driver.Dirs{Task: dir, Secrets: filepath.Join(dir, "secrets")}
	if err := os.MkdirAll(dirs.Secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	return &nativeFixture{
		t: t,
		env: &hooks.TaskEnv{
			AllocEnv: &hooks.AllocEnv{Group: &structs.TaskGroup{
				Networks: []*structs.NetworkResource{{Mode: mode}},
			}},
			Task:   &structs.Task{Name: "api", Kind: structs.NewTaskKind(structs.KindConnectNative, "api")},
			Config: &driver.TaskConfig{Dirs: dirs, Env: map[string]string{"A": "b"}},
			Seen:   driver.Inside,
		},
	}
}

func (fx *nativeFixture) up() error {
	return NewNative(&fx.consul, fx.env.Task).Up(context.Background(), fx.env)
}

func (fx *nativeFixture) path(name string) string {
	return filepath.Join(fx.env.Config.Dirs.Secrets, name)
}

// check brings the hook up and checks the variables that it adds.
func (fx *nativeFixture) check(want map[string]string) {
	fx.t.Helper()
	if err := fx.up(); err != nil {
		fx.t.Fatal(err)
	}
	want["A"] = "b"
	if got := fx.env.Config.Env; !maps.Equal(got, want) {
		fx.t.Errorf("the variables are %q, want %q", got, want)
	}
}

// checkFile checks a file among the secrets. Without a text it must not be there.
func (fx *nativeFixture) checkFile(name, want string) {
	fx.t.Helper()
	got, err := os.ReadFile(fx.path(name))
	if string(got) != want || errors.Is(err, fs.ErrNotExist) != (want == "") {
		fx.t.Errorf("%s has %q, %v, want %q", name, got, err, want)
	}
}

func TestNewNative_IsNilForOtherTasks(t *testing.T) {
	for _, kind := range []structs.TaskKind{"", structs.NewTaskKind(structs.KindConnectProxy, "web")} {
		if NewNative(&fakeNativeConsul{}, &structs.Task{Kind: kind}) != nil {
			t.Errorf("a task of the kind %q has the hook", kind)
		}
	}
}

// In a network namespace the socket is the only way. It takes plain HTTP, also where Consul has TLS.
func TestUp_LeadsToTheSocketInANamespace(t *testing.T) {
	for _, c := range []struct{ mode, shared, want string }{
		{"bridge", "/alloc", "unix:///alloc/tmp/consul_http.sock"},
		{"cni/x", "/alloc", "unix:///alloc/tmp/consul_http.sock"},
		{"none", "/host/a1/alloc", "unix:///host/a1/alloc/tmp/consul_http.sock"},
	} {
		fx := newNativeFixture(t, c.mode)
		fx.consul.access = consul.Access{Address: "consul:8501", SSL: true, CA: "PEM"}
		fx.env.Seen.AllocShared = c.shared
		fx.check(map[string]string{"CONSUL_HTTP_ADDR": c.want, "CONSUL_HTTP_SSL": "false"})
		fx.checkFile(driver.ConsulCAFile, "")
	}
}

func TestUp_LeadsToTheAddressInTheNetworkOfTheNode(t *testing.T) {
	for _, mode := range []string{"", "host"} {
		fx := newNativeFixture(t, mode)
		fx.consul.access = consul.Access{Address: "127.0.0.1:8500"}
		fx.check(map[string]string{"CONSUL_HTTP_ADDR": "127.0.0.1:8500", "CONSUL_HTTP_SSL": "false"})
		fx.checkFile(driver.ConsulCAFile, "")
	}
}

func TestUp_GivesTheAuthorityOfConsul(t *testing.T) {
	fx := newNativeFixture(t, "host")
	fx.env.Seen.Secrets = "/host/a1/api/secrets"
	fx.consul.access = consul.Access{Address: "consul:8501", SSL: true, VerifySSL: true, CA: "PEM"}
	fx.check(map[string]string{
		"CONSUL_HTTP_ADDR":       "consul:8501",
		"CONSUL_HTTP_SSL":        "true",
		"CONSUL_HTTP_SSL_VERIFY": "true",
		"CONSUL_CACERT":          "/host/a1/api/secrets/consul_ca_file.pem",
	})
	fx.checkFile(driver.ConsulCAFile, "PEM")
	fx.consul.access.CA = "another"
	if err := fx.up(); err != nil {
		t.Fatal(err)
	}
	fx.checkFile(driver.ConsulCAFile, "another")
	if !slices.Contains(driver.SecretFiles, driver.ConsulCAFile) {
		t.Error("drivers do not give the file to the user of the task")
	}
	fx = newNativeFixture(t, "host")
	fx.consul.access = consul.Access{Address: "consul:8501", SSL: true}
	fx.check(map[string]string{
		"CONSUL_HTTP_ADDR":       "consul:8501",
		"CONSUL_HTTP_SSL":        "true",
		"CONSUL_HTTP_SSL_VERIFY": "false",
	})
}

func TestUp_GivesTheTokenOfTheTask(t *testing.T) {
	fx := newNativeFixture(t, "bridge")
	if err := os.WriteFile(fx.path(driver.SITokenFile), []byte(tokenID), 0o440); err != nil {
		t.Fatal(err)
	}
	fx.check(map[string]string{
		"CONSUL_HTTP_ADDR":  "unix:///alloc/tmp/consul_http.sock",
		"CONSUL_HTTP_SSL":   "false",
		"CONSUL_HTTP_TOKEN": tokenID,
	})
}

func TestUp_LeavesTheVariablesOfTheTask(t *testing.T) {
	fx := newNativeFixture(t, "bridge")
	if err := os.WriteFile(fx.path(driver.SITokenFile), []byte(tokenID), 0o440); err != nil {
		t.Fatal(err)
	}
	fx.env.Config.Env["CONSUL_HTTP_ADDR"] = "its own"
	fx.env.Config.Env["CONSUL_HTTP_TOKEN"] = ""
	fx.check(map[string]string{
		"CONSUL_HTTP_ADDR":  "its own",
		"CONSUL_HTTP_SSL":   "false",
		"CONSUL_HTTP_TOKEN": "",
	})
}

func TestUp_LeavesAProcessThatRuns(t *testing.T) {
	fx := newNativeFixture(t, "host")
	fx.env.Running = true
	fx.consul.access = consul.Access{Address: "consul:8501", SSL: true, CA: "PEM"}
	fx.check(map[string]string{})
	fx.checkFile(driver.ConsulCAFile, "")
}

func TestUp_Fails(t *testing.T) {
	fx := newNativeFixture(t, "bridge")
	if err := os.Mkdir(fx.path(driver.SITokenFile), 0o700); err != nil {
		t.Fatal(err)
	}
	err := fx.up()
	failure, ok := errors.AsType[*hooks.Failure](err)
	if !ok || !failure.Final || failure.Event != structs.TaskEventSetupFailure {
		t.Errorf("with a file that is no token: %v", err)
	}
	fx = newNativeFixture(t, "host")
	fx.consul.err = structs.Preconditionf("no file")
	err = fx.up()
	if _, ok := errors.AsType[*hooks.Failure](err); ok || !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("without the certificates, which may come: %v", err)
	}
}
