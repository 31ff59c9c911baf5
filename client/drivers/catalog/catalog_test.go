package catalog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"berth/client/drivers/protocol/base"
	"berth/client/drivers/protocol/hclspec"
	"berth/structs"
	"berth/test/kit"
)

// behaviour names the environment variable that makes the test binary a plugin.
const behaviour = "BERTH_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if how := os.Getenv(behaviour); how != "" {
		serve(how)
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each plugin takes a second to end
	goleak.VerifyTestMain(m, goleak.Cleanup(kit.ExitPlain))
}

// served is a plugin with faults on demand.
type served struct {
	base.UnimplementedBasePluginServer
	goplugin.NetRPCUnsupportedPlugin
	how string
}

func (s *served) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	base.RegisterBasePluginServer(g, s)
	return nil
}

func (s *served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (s *served) PluginInfo(
	ctx context.Context, _ *base.PluginInfoRequest,
) (*base.PluginInfoResponse, error) {
	info := &base.PluginInfoResponse{
		Type:              base.PluginType_DEVICE,
		PluginApiVersions: []string{"v0.1.0"},
		PluginVersion:     "v9",
		Name:              "tester",
	}
	switch s.how {
	case "hangs":
		<-ctx.Done()
		return nil, ctx.Err()
	case "huge":
		info.Name = strings.Repeat("x", maxMessage+1)
	case "long name":
		info.Name = strings.Repeat("x", 129)
	case "path":
		info.Name = "../../etc"
	case "long error":
		return nil, fmt.Errorf("%s", strings.Repeat("x", 1<<20))
	case "no driver":
		info.Type = base.PluginType_UNKNOWN
	case "new":
		info.PluginApiVersions = []string{"v7.0.0"}
	case "args":
		info.PluginVersion = strings.Join(os.Args[1:], ",")
	}
	return info, nil
}

func (s *served) ConfigSchema(
	ctx context.Context, _ *base.ConfigSchemaRequest,
) (*base.ConfigSchemaResponse, error) {
	if s.how == "hangs later" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	attr := &hclspec.Attr{Name: "dir", Type: "string", Required: s.how != "lenient"}
	if s.how == "bad schema" {
		attr.Type = "strong"
	}
	dir := &hclspec.Spec{Block: &hclspec.Spec_Attr{Attr: attr}}
	object := &hclspec.Object{Attributes: map[string]*hclspec.Spec{"dir": dir}}
	return &base.ConfigSchemaResponse{Spec: &hclspec.Spec{Block: &hclspec.Spec_Object{Object: object}}}, nil
}

func (s *served) SetConfig(
	ctx context.Context, r *base.SetConfigRequest,
) (*base.SetConfigResponse, error) {
	if s.how == "hangs at last" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	err := os.WriteFile(filepath.Join(os.Getenv("TMPDIR"), "config"), r.GetMsgpackConfig(), 0o600)
	if err != nil {
		return nil, err
	}
	panicIf(s.how == "panics")
	if s.how == "rejects" {
		return nil, fmt.Errorf("this plugin wants another directory")
	}
	return &base.SetConfigResponse{}, nil
}

func serve(how string) {
	switch how {
	case "exits":
		fmt.Fprintln(os.Stderr, "no licence")
		os.Exit(3)
	case "garbage":
		fmt.Println("hello, world")
		time.Sleep(time.Minute)
	case "flood":
		fmt.Print(strings.Repeat("x", 64<<20))
		time.Sleep(time.Minute)
	case "silent":
		time.Sleep(time.Minute)
	case "noise":
		fmt.Printf("1|2|unix|%s|grpc\n", os.Getenv("NOISE"))
		time.Sleep(time.Minute)
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshake,
		Plugins:         goplugin.PluginSet{"x": &served{how: how}},
		GRPCServer:      goplugin.DefaultGRPCServer,
		Logger:          hclog.NewNullLogger(),
	})
}

// program writes a program that behaves so into a directory.
func program(t *testing.T, dir, name, how string) {
	t.Helper()
	text := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", behaviour, how, kit.PlainProgram())
	err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700)
	if err != nil {
		t.Fatal(err)
	}
}

func configOf(t *testing.T, dir string) Config {
	t.Helper()
	sockets, err := os.MkdirTemp("", "bp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	given := &PluginConfig{Name: "p", Config: map[string]any{"dir": "/dev/${x}"}}
	return Config{Dir: dir, Plugins: []*PluginConfig{given}, Sockets: sockets}
}

// opened is a catalog with one plugin that behaves so.
func opened(t *testing.T, how string) (*Catalog, error) {
	t.Helper()
	dir := t.TempDir()
	program(t, dir, "p", how)
	cfg := configOf(t, dir)
	c, err := Open(t.Context(), cfg, hclog.NewNullLogger())
	left, readErr := os.ReadDir(cfg.Sockets)
	if readErr != nil || len(left) != 1 || left[0].Name() != "p" {
		t.Errorf("files of the process are left: %v, %v", left, readErr)
	}
	return c, err
}

func TestOpen_ReadsAPlugin(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	devices := c.Plugins(Device)
	if len(devices) != 1 || devices[0].Name != "tester" || devices[0].Version != "v9" {
		t.Errorf("got %+v", devices)
	}
	if drivers := c.Plugins(Driver); len(drivers) != 0 {
		t.Errorf("a device plugin is a driver: %+v", drivers)
	}
}

func TestOpen_PassesTheArgumentsOn(t *testing.T) {
	dir := t.TempDir()
	program(t, dir, "p", "args")
	cfg := configOf(t, dir)
	cfg.Plugins[0].Args = []string{"-a", "b c"}
	c, err := Open(t.Context(), cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Plugins(Device)[0].Version; got != "-a,b c" {
		t.Errorf("the program has the arguments %q", got)
	}
}

// An executable file need not be a program.
func TestOpen_NamesAFileThatTheKernelRejects(t *testing.T) {
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "p"), []byte("\x7fELF, but no more"), 0o700)
	if err != nil {
		t.Fatal(err)
	}
	cfg := configOf(t, dir)
	c, err := Open(t.Context(), cfg, hclog.NewNullLogger())
	if err != nil || !strings.Contains(fmt.Sprint(c.plugins["p"].reason), "exec format error") {
		t.Errorf("got %v, %v", err, c.plugins)
	}
	if left, err := filepath.Glob(filepath.Join(cfg.Sockets, socketDir+"*")); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestOpen_NamesTheFaultOfABadPlugin(t *testing.T) {
	for how, want := range map[string]string{
		"exits":       "no licence",
		"garbage":     "hello, world",
		"huge":        "larger than max",
		"long name":   "its name has 129 bytes",
		"path":        "letters, digits",
		"long error":  "asking for its name",
		"flood":       "Unrecognized remote plugin message",
		"no driver":   "only drivers and devices",
		"new":         "berth speaks v0.1.0",
		"bad schema":  "strong",
		"hangs":       "asking for its name",
		"hangs later": "asking for the schema",
		"silent":      "timeout while waiting for plugin to start",
		"noise":       "",
	} {
		t.Run(how, func(t *testing.T) {
			shorten(t, how)
			c, err := opened(t, how)
			if err != nil {
				t.Fatalf("the agent would not start: %v", err)
			}
			_, err = c.Start(t.Context(), "p")
			if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 8<<10 {
				t.Errorf("got %.1000v, want %q", err, want)
			}
		})
	}
}

// shorten shortens the timeout that a plugin lets pass. A busy machine keeps to the other one, which is
// longer than usual for calls.
func shorten(t *testing.T, how string) {
	start, call := startTimeout, callTimeout
	t.Cleanup(func() {
		startTimeout = start
		callTimeout = call
	})
	callTimeout = time.Minute
	switch {
	case how == "silent", how == "noise":
		startTimeout = 2 * time.Second
	case strings.HasPrefix(how, "hangs"):
		callTimeout = 4 * time.Second
	}
}

func TestOpen_ChecksTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	program(t, dir, "p", "good")
	for name, given := range map[string]*PluginConfig{
		"required": {Name: "p"},
		"unknown":  {Name: "p", Config: map[string]any{"dir": "x", "dri": "y"}},
		"type":     {Name: "p", Config: map[string]any{"dir": []any{"x"}}},
		"path":     {Name: "../p", Config: map[string]any{"dir": "x"}},
		"parent":   {Name: "..", Config: map[string]any{"dir": "x"}},
		"dir":      {Name: ".", Config: map[string]any{"dir": "x"}},
		"no name":  {Name: "", Config: map[string]any{"dir": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configOf(t, dir)
			cfg.Plugins = []*PluginConfig{given}
			_, err := Open(t.Context(), cfg, hclog.NewNullLogger())
			if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), given.Name) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOpen_RejectsTwoBlocksForAPlugin(t *testing.T) {
	dir := t.TempDir()
	program(t, dir, "p", "good")
	cfg := configOf(t, dir)
	cfg.Plugins = append(cfg.Plugins, cfg.Plugins[0])
	_, err := Open(t.Context(), cfg, hclog.NewNullLogger())
	if err == nil || !strings.Contains(err.Error(), "two blocks") {
		t.Errorf("got %v", err)
	}
}

func TestOpen_RejectsAPathThatIsTooLongForASocket(t *testing.T) {
	dir := t.TempDir()
	program(t, dir, "p", "good")
	cfg := configOf(t, dir)
	cfg.Sockets = "/" + strings.Repeat("x", maxSocketPath-len(longestDir)-len(longestSocket))
	_, err := Open(t.Context(), cfg, hclog.NewNullLogger())
	if err == nil || !strings.Contains(err.Error(), "data_dir: its path is 1 bytes too long") {
		t.Errorf("got %v", err)
	}
}

func TestOpen_BoundsThePrograms(t *testing.T) {
	dir := t.TempDir()
	for i := range MaxPrograms { // and the one of the block
		program(t, dir, fmt.Sprint(i), "good")
	}
	_, err := Open(t.Context(), configOf(t, dir), hclog.NewNullLogger())
	if err == nil || !strings.Contains(err.Error(), "have 65 programs") {
		t.Errorf("got %v", err)
	}
}

// Plugins that hang hold up the start of the agent once, not one after the other.
func TestOpen_AsksAllAtOnce(t *testing.T) {
	shorten(t, "silent")
	dir := t.TempDir()
	const programs = 12
	for i := range programs {
		program(t, dir, fmt.Sprint(i), "silent")
	}
	cfg := configOf(t, dir)
	cfg.Plugins = nil
	began := time.Now()
	c, err := Open(t.Context(), cfg, hclog.NewNullLogger())
	if took := time.Since(began); err != nil || len(c.plugins) != programs || took > (programs-2)*startTimeout {
		t.Errorf("it took %s: %v", took, err)
	}
}

func TestStart_ConfiguresTheProcess(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), "tester")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(c.cfg.Sockets, "p", "config"))
	if err != nil || !strings.Contains(string(text), "/dev/${x}") {
		t.Errorf("the configuration is not as given: %q, %v", text, err)
	}
	p.Kill()
	if _, err := os.Stat(p.Reattach().Dir); !os.IsNotExist(err) {
		t.Errorf("its directory is left: %v", err)
	}
	select {
	case <-p.Exited():
	default:
		t.Error("Kill returned before the process has ended")
	}
	p.Kill() // again
}

func TestStart_PassesOnWhyAPluginRejectsItsConfiguration(t *testing.T) {
	c, err := opened(t, "rejects")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Start(t.Context(), "tester")
	if err == nil || !strings.Contains(err.Error(), "wants another directory") {
		t.Errorf("got %v", err)
	}
}

func TestStart_GivesUpAPluginThatHangs(t *testing.T) {
	shorten(t, "hangs at last")
	c, err := opened(t, "hangs at last")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Start(t.Context(), "tester")
	if err == nil || !strings.Contains(err.Error(), "configuring: ") {
		t.Errorf("got %v", err)
	}
	if left := directories(t, c); len(left) != 0 {
		t.Errorf("directories of the process are left: %v", left)
	}
}

func TestStart_EndsWithItsContext(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	program(t, c.cfg.Dir, "p", "silent")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	_, err = c.Start(ctx, "tester")
	if took := time.Since(began); err == nil || took > startTimeout/2 {
		t.Errorf("got %v after %s", err, took)
	}
	if left := directories(t, c); len(left) != 0 {
		t.Errorf("directories of the process are left: %v", left)
	}
}

// directories are the directories of processes.
func directories(t *testing.T, c *Catalog) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(c.cfg.Sockets, socketDir+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestReattach_FindsTheProcessAgain(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.Start(t.Context(), "tester")
	if err != nil {
		t.Fatal(err)
	}
	record := first.Reattach()
	first.Detach()
	t.Cleanup(func() { _, _ = unix.Wait4(record.Process.PID, nil, 0, nil) })
	second, err := c.Reattach(t.Context(), "tester", record)
	if err != nil || second == nil {
		t.Fatalf("got %v, %v", second, err)
	}
	defer second.Kill()
	info, err := base.NewBasePluginClient(second.Conn()).PluginInfo(t.Context(), &base.PluginInfoRequest{})
	if err != nil || info.GetName() != "tester" || second.Reattach().Process != record.Process {
		t.Errorf("got %v, %v", info, err)
	}
}

func TestReattach_TrustsNoOtherProcess(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), "tester")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	for name, change := range map[string]func(*Reattach){
		"a process with the pid that began later": func(r *Reattach) { r.Process.Start-- },
		"a process of another boot":               func(r *Reattach) { r.BootID = "another" },
		"no process":                              func(r *Reattach) { r.Process.PID = 1 << 22 },
		"a process of another configuration":      func(r *Reattach) { r.Digest = "another" },
	} {
		record := p.Reattach()
		change(&record)
		found, err := c.Reattach(t.Context(), "tester", record)
		if err != nil || found != nil {
			t.Errorf("%s: got %v, %v", name, found, err)
		}
	}
}

func TestReattach_LeavesTheProcessAloneWhenTheAgentStops(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), "tester")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		again, err := c.Reattach(ctx, "tester", p.Reattach())
		if again != nil || err == nil {
			t.Fatalf("got %v, %v", again, err)
		}
	}
	if isClosed(p.Exited()) || len(directories(t, c)) != 1 {
		t.Error("the process or its directory is gone")
	}
}
