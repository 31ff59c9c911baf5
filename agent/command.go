package agent

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"berth/cli/command"
	"berth/internal/agentlog"
	"berth/internal/version"
	"berth/structs"
)

const help = `
-dev runs a server and a node on loopback and deletes their data at the end.
Options override the configuration files, and these override the defaults.

SIGTERM and SIGINT stop the agent. Its tasks continue, and the next start
finds them again (not with -dev). SIGHUP reloads the live settings from the
configuration. With leave_on_interrupt or leave_on_terminate the server first
leaves the cluster. With drain_on_shutdown the node first drains; a second
signal ends the wait.`

// Command returns "berth agent", which runs an agent until ctx ends.
func Command() command.Command {
	flags := []command.Flag{
		{
			Name:  "config",
			Kind:  command.Strings,
			Value: "path",
			Usage: "A configuration file, or a directory of them; may be given more than once",
		},
		{Name: "dev", Kind: command.Bool, Usage: "Run a server and a node in one process that keeps nothing"},
	}

	c := DefaultConfig()
	for _, o := range c.options() {
		flags = append(flags, o.flag())
	}

	return command.Command{
		Name:     "agent",
		Group:    command.GroupSelf,
		Synopsis: "Run a server, a node, or both",
		Help:     help,
		Examples: "berth agent -dev\n" +
			"berth agent -config /etc/berth",
		Flags:  flags,
		Local:  true,
		Misuse: ExitConfig,
		Run:    runCommand,
	}
}

// ExitConfig is the exit code of an agent whose configuration is not valid: EX_CONFIG of sysexits.h. The
// units of systemd do not start such an agent again. It is neither the exit code of another error nor that
// of a panic, after which an agent has to start again.
const ExitConfig = 78

// InvalidConfig gives an error of the configuration the exit code ExitConfig. Only a fault of the text is
// one: a file that cannot be read now may be read later.
func InvalidConfig(err error) error {
	if !structs.IsKind(err, structs.KindInvalid) {
		return err
	}
	return command.WithExit(ExitConfig, err)
}

// option is a flag that sets a field of the configuration if it is given.
type option struct {
	name  string
	value string // see cli.Flag
	usage string
	field any // *bool, *int, *string or, for a list with commas, *[]string
}

// options returns the flags that set the fields of c.
func (c *Config) options() []option {
	return []option{
		{"server", "", "Run a server", &c.Server.Enabled},
		{"client", "", "Run a node", &c.Client.Enabled},
		{"data-dir", "path", "The absolute path of the directory for all data", &c.DataDir},
		{"operator-socket", "path", "The absolute path of the operator socket", &c.OperatorSocket},
		{"bind", "address", "The address to listen on", &c.BindAddr},
		{"name", "name", "The agent's name. Default: the host's", &c.Name},
		{"dc", "name", "The datacenter", &c.Datacenter},
		{"region", "name", "The region", &c.Region},
		{"log-level", "level", "trace, debug, info, warn or error", &c.LogLevel},
		{"log-json", "", "Log in JSON", &c.LogJSON},
		{"network-interface", "name", "The interface with the address of a node's ports",
			&c.Client.NetworkInterface},
		{"http-port", "port", "The port of the HTTP API; 0 takes any", &c.Ports.HTTP},
		{"rpc-port", "port", "The port of RPC and Raft; 0 takes any", &c.Ports.RPC},
		{"serf-port", "port", "The port of gossip; 0 takes any", &c.Ports.Serf},
		{"bootstrap-expect", "number", "How many servers form the cluster", &c.Server.BootstrapExpect},
		{"retry-join", "addresses", "Gossip addresses of other servers, comma-separated",
			&c.Server.RetryJoin},
		{
			"servers",
			"addresses",
			"RPC addresses of the servers that a node joins, comma-separated",
			&c.Client.Servers,
		},
	}
}

// flag returns the flag of an option. Its kind follows from the type of the field.
func (o option) flag() command.Flag {
	f := command.Flag{
		Name:  o.name,
		Kind:  command.String,
		Value: o.value,
		Usage: o.usage,
	}

	switch o.field.(type) {
	case *bool:
		f.Kind = command.Bool
	case *int:
		f.Kind = command.Number
	}

	return f
}

// set sets the field to the value of the flag.
func (o option) set(call *command.Call) {
	switch field := o.field.(type) {
	case *bool:
		*field = call.Bool(o.name)
	case *int:
		*field = int(call.Number(o.name))
	case *string:
		*field = call.String(o.name)
	case *[]string:
		*field = strings.Split(call.String(o.name), ",")
	}
}

// configOf returns the defaults, overridden by the files and then by the options.
func configOf(call *command.Call) (Config, error) {
	c := DefaultConfig()
	if call.Bool("dev") {
		c.dev()
	}

	// The order makes each source override the one before.
	if err := c.LoadFiles(call.Strings("config")); err != nil {
		return c, err
	}

	for _, o := range c.options() {
		// Only what is given: the zero value of a flag must not override a file.
		if call.Given(o.name) {
			o.set(call)
		}
	}

	return c, nil
}

// dev sets the defaults of -dev. Files and options override them.
func (c *Config) dev() {
	c.Dev = true
	c.DataDir = "" // a new one
	c.BindAddr = "127.0.0.1"
	c.Server.Enabled = true
	c.Client.Enabled = true
	c.Client.Drivers.RawExec.Enabled = true
	c.EnableDebug = true

	// Nothing is reachable from outside, and a machine without a network can run it.
	c.Client.NetworkInterface = "lo"
}

// runCommand runs an agent from its configuration to its end. A failure before New leaves nothing open but
// the directory of -dev.
func runCommand(ctx context.Context, call *command.Call) error {
	manager := takeManager() // before anything starts a child
	cfg, err := configOf(call)
	if err != nil {
		return InvalidConfig(err)
	}

	if cfg.Dev && cfg.DataDir == "" {
		dir, err := os.MkdirTemp("", "berth-dev-")
		if err != nil {
			return err
		}

		// The tasks of -dev end with the agent (DestroyOnShutdown), so nothing uses the directory any more.
		defer func() { _ = os.RemoveAll(dir) }()

		cfg.DataDir = dir
	}

	if err := cfg.Finish(); err != nil {
		return InvalidConfig(err)
	}

	if err := makeDevKeyring(&cfg); err != nil {
		return err
	}

	// This precedes New, which reads the state and makes most of the heap.
	setGOGC(cfg.Server.Enabled)
	logger, closeLog, err := newLogger(&cfg, call.Err)
	if err != nil {
		return err
	}
	defer closeLog()

	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // now, because the signal would end a process that only starts
	defer signal.Stop(hangups)
	a, err := newWithSpace(ctx, cfg, logger)
	if ctx.Err() != nil && a == nil {
		return nil // a signal has ended the start
	}

	if err != nil {
		return err
	}

	// A signal that arrived during the start is still in the channel, and is handled now.
	a.source = func() (*Config, error) { return configAgain(call, a.config()) }
	defer onHangup(hangups, func() { _ = a.reread() })() // it logs its error

	// The ports are bound here, so a script that reads the lines can connect.
	call.Printf("berth %s\nHTTP API:  %s://%s\nSocket:    unix://%s\nData:      %s\n",
		version.Version, a.scheme(), a.HTTPAddr(), cfg.OperatorSocket, cfg.DataDir)
	return runUnder(ctx, manager, a)
}

// newLogger returns the logger of the agent. Its lines go to standard error, and to the log file if there is
// one. Readers may follow it. closeLog closes the file.
func newLogger(cfg *Config, stderr io.Writer) (_ hclog.Logger, closeLog func(), err error) {
	var output io.Writer = agentlog.NewStream(stderr)
	closeLog = func() {}
	if cfg.LogFile != "" {
		file, err := agentlog.Open(cfg.logFile(), output)
		if err != nil {
			return nil, nil, structs.Preconditionf("%w", err)
		}
		output = file
		closeLog = file.Close
	}

	return hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name:       "berth",
		Level:      hclog.LevelFromString(cfg.LogLevel),
		JSONFormat: cfg.LogJSON,
		Output:     output,
	}), closeLog, nil
}

// onHangup calls fn at every signal that arrives. stop waits for a running call, after which fn is not called
// again.
func onHangup(hangups chan os.Signal, fn func()) (stop func()) {
	ended := make(chan struct{})

	// It ends when the channel is closed, by stop.
	go func() {
		defer close(ended)
		for range hangups {
			fn()
		}
	}()
	return func() {
		signal.Stop(hangups) // the runtime does not send to hangups afterwards
		close(hangups)
		<-ended
	}
}

// configAgain reads the files and the options again.
func configAgain(call *command.Call, now *Config) (*Config, error) {
	cfg, err := configOf(call)
	if err != nil {
		return nil, err
	}
	cfg.DataDir = cmp.Or(cfg.DataDir, now.DataDir) // -dev has made one
	err = cfg.Finish()
	return &cfg, err
}
