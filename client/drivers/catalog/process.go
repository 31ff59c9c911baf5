package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"berth/internal/process"
)

// startTimeout bounds the time from the start of a process to its handshake. Tests shorten it.
var startTimeout = time.Minute

const (
	// stopTimeout is the time between the request to end and SIGKILL.
	stopTimeout = 2 * time.Second
	// maxMessage bounds a message of a plugin in bytes, and maxHeader the text of an error, which gRPC sends
	// in a header. Without them a plugin with a fault takes the memory of the agent.
	maxMessage = 4 << 20
	maxHeader  = 64 << 10
	// socketDir begins the name of the directory that the library makes for the socket of a process.
	socketDir = "plugin-dir"
)

// handshake is what the plugins of the dialect expect of the program that starts them. It is no secret: it
// keeps people from starting a plugin by hand.
var handshake = goplugin.HandshakeConfig{
	ProtocolVersion:  2,
	MagicCookieKey:   "NOMAD_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
}

// Reattach finds the process of a plugin again after a restart of the agent. It is a record of the node.
type Reattach struct {
	Process process.Ref
	BootID  string // the process is gone if the machine was booted since
	Network string // "unix" or "tcp"
	Address string
	Dir     string // the directory of the socket
	Digest  string // of the program and its configuration
}

// clean removes the files of an ended process. A plugin that was built with an older library has its socket
// beside Dir.
func (r Reattach) clean() error {
	err := os.RemoveAll(r.Dir)
	// The address comes from the process. Only a socket in the directory of sockets is removed.
	socket := filepath.Clean(r.Address)
	if r.Network != "unix" || !strings.HasPrefix(socket, filepath.Dir(r.Dir)+"/") {
		return err
	}
	gone := os.Remove(socket)
	if errors.Is(gone, fs.ErrNotExist) {
		gone = nil
	}
	return errors.Join(err, gone)
}

// Process is a running plugin. Its user calls Kill or Detach at the end.
type Process struct {
	client   *goplugin.Client
	conn     *grpc.ClientConn
	reattach Reattach
	attached *attached
}

// Conn is the connection for the services of the plugin. It fails after the plugin has ended.
func (p *Process) Conn() grpc.ClientConnInterface { return p.conn }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.attached.exited }

// Result says how the process has ended, "" if this is not known. Exited is closed.
func (p *Process) Result() string { return p.attached.result }

// Reattach returns the record for a later Catalog.Reattach.
func (p *Process) Reattach() Reattach { return p.reattach }

// Kill asks the process to end, kills it if it does not, and returns when it has ended. It is idempotent.
func (p *Process) Kill() {
	// The request has no bound of its own, and a plugin may hang.
	late := time.AfterFunc(stopTimeout, func() { _ = p.attached.Kill(context.Background()) })
	defer late.Stop()
	p.client.Kill()
	p.attached.close()
	_ = p.reattach.clean()
}

// Detach closes the connection and lets the process run on.
func (p *Process) Detach() {
	p.attached.detach()
	p.leave()
}

// leave lets a detached process run on. Kill of the library would ask it to end.
func (p *Process) leave() {
	if p.conn != nil {
		_ = p.conn.Close()
	}

	// detach ends the watch, and with it the readers of the output, which belong to the next agent from here
	// on.
	<-p.attached.ended
	p.attached.logs.Wait()
}

// connection is the one "plugin" of go-plugin that every process serves: its gRPC connection.
type connection struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (connection) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("berth serves no plugin of this kind")
}

func (connection) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// clientConfig has what starting and reattaching have in common.
func clientConfig(logger hclog.Logger) *goplugin.ClientConfig {
	output := logger.StandardWriter(&hclog.StandardLoggerOptions{InferLevels: true})
	return &goplugin.ClientConfig{
		HandshakeConfig:  handshake,
		Plugins:          goplugin.PluginSet{"": connection{}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           logger,
		SyncStdout:       output, // after the handshake the standard output comes over gRPC
		SyncStderr:       output,
		StartTimeout:     startTimeout,
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithMaxHeaderListSize(maxHeader),
			grpc.WithDefaultCallOptions(
				grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		},
	}
}

// start starts a process. sockets is an existing private directory, in which the process gets one for its
// socket and its log.
func start(ctx context.Context, cmd *exec.Cmd, sockets string, logger hclog.Logger) (*Process, error) {
	a := newAttached()
	cfg := clientConfig(logger)
	// run has set the environment.
	cfg.SkipHostEnv = true
	cfg.UnixSocketConfig = &goplugin.UnixSocketConfig{TempDir: sockets}
	cfg.RunnerFunc = func(_ hclog.Logger, handed *exec.Cmd, dir string) (runner.Runner, error) {
		a.dir = dir
		// handed has the variables of the handshake, and no program.
		cmd.Env = append(cmd.Env, handed.Env...)
		return newRunner(ctx, a, cmd)
	}
	return connect(goplugin.NewClient(cfg), a)
}

// connect waits for the handshake and opens the connection. It kills a process that has none, unless that one
// is detached.
func connect(client *goplugin.Client, a *attached) (*Process, error) {
	p := &Process{client: client, attached: a}
	protocol, err := client.Client()
	if err == nil {
		var conn any
		conn, err = protocol.Dispense("")
		p.conn, _ = conn.(*grpc.ClientConn)
	}
	if err == nil {
		p.reattach, err = a.record(client.ReattachConfig())
	}

	// The end of ctx has killed or detached the process after it was connected.
	if !a.abort() && err == nil {
		err = context.Canceled
	}
	if err == nil {
		return p, nil
	}

	// A detached process runs on for the next agent.
	if a.context.Err() != nil {
		p.leave()
		return nil, err
	}

	_ = a.Kill(context.Background())
	client.Kill()
	err = a.explain(err)
	a.close()
	return nil, errors.Join(err, os.RemoveAll(a.dir))
}

// reattach connects to a process that an earlier agent started. It returns nil if the process is gone. It
// leaves the process alone if ctx ends.
func reattach(ctx context.Context, record Reattach, logger hclog.Logger) (*Process, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}

	running, err := record.running()
	if err != nil || !running {
		return nil, err
	}

	addr, err := resolve(record.Network, record.Address)
	if err != nil {
		return nil, err
	}

	a, err := followEarlier(ctx, record, logger)
	if err != nil {
		return nil, err
	}

	cfg := clientConfig(logger)
	cfg.Reattach = &goplugin.ReattachConfig{
		Protocol:        goplugin.ProtocolGRPC,
		ProtocolVersion: int(handshake.ProtocolVersion),
		Addr:            addr,
		Pid:             record.Process.PID,
		ReattachFunc:    func() (runner.AttachedRunner, error) { return a, nil },
	}

	p, err := connect(goplugin.NewClient(cfg), a)
	if err != nil {
		return nil, err
	}

	p.reattach = record
	return p, nil
}

// followEarlier watches the process of an earlier agent and reads its output. The process is no child of this
// one, so its exit status stays unknown.
func followEarlier(ctx context.Context, record Reattach, logger hclog.Logger) (*attached, error) {
	a := newAttached()
	a.dir = record.Dir
	err := a.openTails()
	if err != nil {
		a.close()
		return nil, err
	}

	a.watch(record.Process, nil)
	a.logs.Go(func() { a.stdout.logTo(logger) })
	a.logs.Go(func() { a.stderr.logTo(logger) })
	stop := context.AfterFunc(ctx, a.detach)
	a.abort = func() bool {
		if stop() {
			return true
		}

		a.detach() // AfterFunc may not have come to it
		return false
	}

	return a, nil
}

// running reports whether the very process of the record runs.
func (r Reattach) running() (bool, error) {
	boot, err := process.BootID()
	if err != nil || boot != r.BootID {
		return false, err
	}
	fd, err := r.Process.Open()
	if err != nil || fd < 0 {
		return false, err
	}
	return true, os.NewFile(uintptr(fd), "pidfd").Close()
}

// resolve parses the address of a record.
func resolve(network, address string) (net.Addr, error) {
	switch network {
	case "unix":
		return net.ResolveUnixAddr(network, address)
	case "tcp":
		return net.ResolveTCPAddr(network, address)
	}
	return nil, fmt.Errorf("the address of a plugin is of network %q", network)
}

// kill kills the process of a record, if it is still that one, and removes its files.
func kill(ctx context.Context, record Reattach) error {
	running, err := record.running()
	if err == nil && running {
		ctx, cancel := context.WithTimeout(ctx, killTimeout)
		defer cancel()
		err = record.Process.Kill(ctx)
	}
	if err != nil {
		return err
	}
	return record.clean()
}
