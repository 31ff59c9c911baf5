package csitest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Config configures the plugin. The zero value with Controller or Node set is a useful plugin.
type Config struct {
	Name       string // "test.csi.berth" by default
	Version    string // "1.0" by default
	Controller bool   // serves the controller
	Node       bool   // serves the node half
	Groups     bool   // serves and announces group snapshots
	NodeID     string // "node-1" by default
	MaxVolumes int64
	Topology   map[string]string // of the node; announces the topology service

	// Capabilities by their names in the specification. Nil means the usual ones, which the in-memory volumes
	// support. An empty slice means none.
	PluginCaps     []string
	ControllerCaps []string
	NodeCaps       []string
	GroupCaps      []string

	// Capacity answers GetCapacity. Nil answers UNIMPLEMENTED.
	Capacity func(*spec.GetCapacityRequest) *spec.GetCapacityResponse

	// Mounts makes stage and publish bind a directory of the volume, so that there is something to see in
	// the mount table. It needs root.
	Mounts bool
	// HostPath translates a path in the plugin's scope into one of this process. Nil changes nothing.
	HostPath func(string) string
	// SocketDir is the directory of csi.sock. The default is a short temporary directory.
	SocketDir string

	// Volumes is another instance of the plugin, which has the same volumes and snapshots. Nil: the instance
	// has its own.
	Volumes *Plugin
	// Intercept, if not nil, gets each call first, also one that a script answers.
	Intercept grpc.UnaryServerInterceptor
}

// The usual capabilities.
var (
	usualController = []string{
		"CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "LIST_VOLUMES", "GET_CAPACITY",
		"CREATE_DELETE_SNAPSHOT", "LIST_SNAPSHOTS", "CLONE_VOLUME", "PUBLISH_READONLY", "EXPAND_VOLUME",
		"LIST_VOLUMES_PUBLISHED_NODES",
	}
	usualNode = []string{"STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS", "EXPAND_VOLUME"}
)

// Plugin is a running fake plugin.
type Plugin struct {
	// It has the default values of New, and never changes afterwards.
	cfg Config
	// It has the data of the volumes and, without another directory, the socket. Close removes it.
	dir string

	// It guards srv and done: Stop and Restart exclude each other.
	mu  sync.Mutex
	srv *grpc.Server // nil while the plugin does not run
	// The connections of srv.
	conns *connections
	// It is closed when Serve of this server has returned.
	done chan struct{}

	// They have locks of their own, and last over a restart.
	scripts scripts
	storage *storage
}

// Start runs a plugin until the test ends.
func Start(t testing.TB, cfg Config) *Plugin {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	return p
}

// New makes a plugin that does not listen yet: Restart does that, Close ends it.
func New(cfg Config) (*Plugin, error) {
	cfg.Name = cmp.Or(cfg.Name, "test.csi.berth")
	cfg.Version = cmp.Or(cfg.Version, "1.0")
	cfg.NodeID = cmp.Or(cfg.NodeID, "node-1")
	cfg.ControllerCaps = orDefault(cfg.ControllerCaps, usualController)
	cfg.NodeCaps = orDefault(cfg.NodeCaps, usualNode)
	cfg.GroupCaps = orDefault(cfg.GroupCaps, []string{"CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"})
	cfg.PluginCaps = orDefault(cfg.PluginCaps, pluginCaps(cfg))
	if cfg.HostPath == nil {
		cfg.HostPath = func(p string) string { return p }
	}

	// A short path: the path of a unix socket has at most 107 bytes, and a test's own directory may be
	// longer.
	dir, err := os.MkdirTemp("/tmp", "csi")
	if err != nil {
		return nil, err
	}

	if cfg.SocketDir == "" {
		cfg.SocketDir = dir
	}

	p := &Plugin{
		cfg:     cfg,
		dir:     dir,
		storage: newStorage(cfg, dir),
	}

	if cfg.Volumes != nil {
		p.storage = cfg.Volumes.storage
	}

	p.scripts.init()
	return p, nil
}

// pluginCaps returns the usual services, which the rest of the configuration implies.
func pluginCaps(cfg Config) []string {
	caps := []string{"ONLINE"}
	if cfg.Controller {
		caps = append(caps, "CONTROLLER_SERVICE")
	}
	if cfg.Groups {
		caps = append(caps, "GROUP_CONTROLLER_SERVICE")
	}
	if len(cfg.Topology) > 0 {
		caps = append(caps, "VOLUME_ACCESSIBILITY_CONSTRAINTS")
	}
	return caps
}

// orDefault returns the list, or the default for nil.
func orDefault(list, usual []string) []string {
	if list == nil {
		return usual
	}
	return list
}

// Socket returns the path on which the plugin listens.
func (p *Plugin) Socket() string {
	return filepath.Join(p.cfg.SocketDir, "csi.sock")
}

// Endpoint returns the socket in the form of CSI_ENDPOINT.
func (p *Plugin) Endpoint() string {
	return "unix://" + p.Socket()
}

// Dir returns the directory with the data of mounted volumes, <Dir>/<volume id>.
func (p *Plugin) Dir() string { return p.dir }

// Stop ends the server as a crash does: calls in flight fail, and the socket is removed. Volumes stay.
func (p *Plugin) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
}

// stop is Stop for a caller with the lock.
func (p *Plugin) stop() {
	if p.srv == nil {
		return
	}
	// The connections end before the hung calls: a process that has ended answers none. The server waits for
	// its handlers.
	p.conns.cut()
	p.scripts.breakHung()
	p.srv.Stop()
	<-p.done
	p.srv = nil
	_ = os.Remove(p.Socket())
}

// Restart stops the server if it runs and listens again on the same path.
func (p *Plugin) Restart() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	// The last server may have left its socket, and a listener does not replace a file.
	err := os.Remove(p.Socket())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	l, err := net.Listen("unix", p.Socket())
	if err != nil {
		return err
	}

	// The listener exists, so a call that a client makes from now on waits for Serve and does not fail.
	p.scripts.renewBroken()
	chain := []grpc.UnaryServerInterceptor{p.intercept}
	if p.cfg.Intercept != nil {
		chain = slices.Insert(chain, 0, p.cfg.Intercept)
	}

	p.srv = grpc.NewServer(grpc.ChainUnaryInterceptor(chain...),
		grpc.WaitForHandlers(true))
	spec.RegisterIdentityServer(p.srv, identity{p: p})
	if p.cfg.Controller {
		spec.RegisterControllerServer(p.srv, controller{p: p})
	}

	if p.cfg.Groups {
		spec.RegisterGroupControllerServer(p.srv, groups{p: p})
	}

	if p.cfg.Node {
		spec.RegisterNodeServer(p.srv, node{p: p})
	}

	done := make(chan struct{})
	srv := p.srv
	conns := &connections{Listener: l}
	p.conns = conns
	p.done = done
	go func() {
		defer close(done)
		_ = srv.Serve(conns) // ends with Stop
	}()
	return nil
}

// connections is a listener that can end its connections.
type connections struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
}

// Accept implements net.Listener.
func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		c.open = append(c.open, conn)
		c.mu.Unlock()
	}
	return conn, err
}

// cut ends the connections.
func (c *connections) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close()
	}
}

// Close stops the plugin and removes everything that it made, also its mounts.
func (p *Plugin) Close() {
	p.Stop()
	p.storage.unmountAll()
	_ = os.RemoveAll(p.dir)
}

// Error makes an error with a gRPC code by its name ("NotFound", "Aborted", ...).
func Error(code, format string, args ...any) error {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if c.String() == code {
			return status.Errorf(c, format, args...)
		}
	}
	panic(fmt.Sprintf("csitest: no gRPC code is named %q", code))
}

// intercept handles every call: it records the call, applies the script, and serves it.
func (p *Plugin) intercept(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, serve grpc.UnaryHandler,
) (any, error) {
	rpc := filepath.Base(info.FullMethod)
	script, err := p.scripts.recordCall(ctx, rpc, req)
	if err != nil {
		return nil, err
	}
	if script != nil {
		return script(ctx, req)
	}
	return serve(ctx, req)
}
