package plugincatalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"berth/client/procref"
)

// startTimeout bounds the time from the start of a process to its handshake. Tests shorten it.
var startTimeout = time.Minute

const (
	// stopTimeout is the time between the request to end and SIGKILL.
	stopTimeout = 2 * time.Second
	// maxMessage bounds a message of a plugin.
	maxMessage = 4 << 20
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
	Process procref.Ref
	BootID  string // the process is gone if the machine was booted since
	Network string // "unix" or "tcp"
	Address string
	Dir     string // the directory of the socket
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

// Reattach returns the record for a later Catalog.Reattach.
func (p *Process) Reattach() Reattach { return p.reattach }

// Kill asks the process to end, kills it if it does not, and returns when it has ended. It is idempotent.
func (p *Process) Kill() {
	// The request has no bound of its own, and a plugin may hang.
	late := time.AfterFunc(stopTimeout, func() { _ = p.reattach.Process.Kill(context.Background()) })
	defer late.Stop()
	p.client.Kill()
	_ = os.RemoveAll(p.reattach.Dir)
}

// Detach closes the connection and lets the process run on.
func (p *Process) Detach() {
	_ = p.conn.Close()
	p.attached.detach()
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
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage))},
	}
}

// start starts a process. dir is an existing private directory for its socket and its log.
func start(cmd *exec.Cmd, dir string, logger hclog.Logger) (*Process, error) {
	r, err := newRunner(cmd, dir)
	if err != nil {
		return nil, err
	}
	cfg := clientConfig(logger)
	cfg.SkipHostEnv = true
	cfg.UnixSocketConfig = &goplugin.UnixSocketConfig{TempDir: dir}
	cfg.RunnerFunc = func(_ hclog.Logger, handed *exec.Cmd, _ string) (runner.Runner, error) {
		cmd.Env = append(cmd.Env, handed.Env...)
		return r, nil
	}
	return connect(goplugin.NewClient(cfg), r.attached, dir)
}

// connect waits for the handshake and opens the connection. It kills a process that has none.
func connect(client *goplugin.Client, a *attached, dir string) (*Process, error) {
	p := &Process{client: client, attached: a}
	protocol, err := client.Client()
	if err == nil {
		var conn any
		conn, err = protocol.Dispense("")
		p.conn, _ = conn.(*grpc.ClientConn)
	}
	if err == nil {
		p.reattach, err = a.record(client.ReattachConfig(), dir)
	}
	if err != nil {
		_ = a.process.Kill(context.Background())
		client.Kill()
		return nil, err
	}
	return p, nil
}

// reattach connects to a process that an earlier agent started. It returns nil if the process is gone.
func reattach(record Reattach, logger hclog.Logger) (*Process, error) {
	boot, err := procref.BootID()
	if err != nil || boot != record.BootID {
		return nil, err
	}
	fd, err := record.Process.Open()
	if err != nil || fd < 0 {
		return nil, err
	}
	_ = syscall.Close(fd)
	addr, err := resolve(record.Network, record.Address)
	if err != nil {
		return nil, err
	}
	a := newAttached()
	a.watch(record.Process, nil)
	cfg := clientConfig(logger)
	cfg.Reattach = &goplugin.ReattachConfig{
		Protocol:        goplugin.ProtocolGRPC,
		ProtocolVersion: int(handshake.ProtocolVersion),
		Addr:            addr,
		Pid:             record.Process.PID,
		ReattachFunc:    func() (runner.AttachedRunner, error) { return a, nil },
	}
	return connect(goplugin.NewClient(cfg), a, record.Dir)
}

func resolve(network, address string) (net.Addr, error) {
	if network == "unix" {
		return net.ResolveUnixAddr(network, address)
	}
	return net.ResolveTCPAddr(network, address)
}

// attached is a process that runs, whoever started it.
type attached struct {
	process procref.Ref
	exited  chan struct{} // closed when the process has ended
	ended   chan struct{} // closed when it has ended or is no longer watched
	detach  context.CancelFunc
	context context.Context // until detach
}

func newAttached() *attached {
	ctx, cancel := context.WithCancel(context.Background())
	return &attached{exited: make(chan struct{}), ended: make(chan struct{}), detach: cancel, context: ctx}
}

// watch waits for the end of the process in the background. reap, if there is one, takes the exit status.
func (a *attached) watch(process procref.Ref, reap func()) {
	a.process = process
	go func() {
		defer close(a.ended)
		err := process.Wait(a.context)
		if err != nil {
			return
		}
		if reap != nil {
			reap()
		}
		close(a.exited)
	}()
}

func (a *attached) record(c *goplugin.ReattachConfig, dir string) (Reattach, error) {
	boot, err := procref.BootID()
	return Reattach{
		Process: a.process,
		BootID:  boot,
		Network: c.Addr.Network(),
		Address: c.Addr.String(),
		Dir:     dir,
	}, err
}

// Wait implements runner.AttachedRunner. It returns also when the process is no longer watched.
func (a *attached) Wait(context.Context) error {
	<-a.ended
	return nil
}

// Kill implements runner.AttachedRunner.
func (a *attached) Kill(ctx context.Context) error { return a.process.Kill(ctx) }

// ID implements runner.AttachedRunner. It is empty before the start.
func (a *attached) ID() string {
	if a.process.PID == 0 {
		return ""
	}
	return fmt.Sprint(a.process.PID)
}

// PluginToHost implements runner.AddrTranslator: a plugin runs in the agent's namespaces.
func (a *attached) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.AddrTranslator.
func (a *attached) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// processRunner starts a process in a session of its own. Its output goes to files, because a process that
// outlives the agent must not write into a pipe without a reader.
type processRunner struct {
	*attached
	cmd    *exec.Cmd
	stdout *tail
	stderr *tail
}

func newRunner(cmd *exec.Cmd, dir string) (*processRunner, error) {
	r := &processRunner{cmd: cmd, attached: newAttached()}
	var err error
	r.stdout, err = newTail(filepath.Join(dir, "stdout"), r.ended)
	if err != nil {
		return nil, err
	}
	r.stderr, err = newTail(filepath.Join(dir, "stderr"), r.ended)
	if err != nil {
		_ = r.stdout.Close()
		return nil, err
	}
	cmd.Stdout = r.stdout.file
	cmd.Stderr = r.stderr.file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return r, nil
}

// Start implements runner.Runner.
func (r *processRunner) Start(context.Context) error {
	err := r.cmd.Start()
	if err != nil {
		close(r.ended)
		return err
	}
	process, err := procref.Of(r.cmd.Process.Pid)
	if err != nil { // it has no /proc, so it cannot be watched
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		close(r.ended)
		return err
	}
	r.watch(process, func() { _ = r.cmd.Wait() })
	return nil
}

// Diagnose implements runner.Runner: the end of what the process wrote to its standard error.
func (r *processRunner) Diagnose(context.Context) string { return r.stderr.last() }

// Stdout implements runner.Runner.
func (r *processRunner) Stdout() io.ReadCloser { return r.stdout }

// Stderr implements runner.Runner.
func (r *processRunner) Stderr() io.ReadCloser { return r.stderr }

// Name implements runner.Runner.
func (r *processRunner) Name() string { return r.cmd.Path }

// kill kills the process of a record, if it is still that one, and removes its directory.
func kill(ctx context.Context, record Reattach) error {
	boot, err := procref.BootID()
	if err != nil {
		return err
	}
	if boot == record.BootID {
		err = record.Process.Kill(ctx)
	}
	return errors.Join(err, os.RemoveAll(record.Dir))
}
