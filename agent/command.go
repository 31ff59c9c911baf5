package agent

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"berth/cli"
	"berth/internal/version"
	"berth/structs"
)

const help = `
-dev runs a server and a node on loopback and deletes their data at the end.
Options override the configuration files, and these override the defaults.

SIGTERM and SIGINT stop the agent. Its tasks continue, and the next start
finds them again (not with -dev). SIGHUP reloads the log level from the
configuration. With leave_on_interrupt or leave_on_terminate the server first
leaves the cluster.`

// Command returns "berth agent", which runs an agent until ctx ends.
func Command() cli.Command {
	flags := []cli.Flag{
		{Name: "config", Kind: cli.Strings, Value: "path",
			Usage: "A configuration file, or a directory of them; may be given more than once"},
		{Name: "dev", Kind: cli.Bool, Usage: "Run a server and a node in one process that keeps nothing"},
	}
	for _, o := range options {
		flags = append(flags, o.Flag)
	}
	return cli.Command{
		Name:     "agent",
		Group:    cli.GroupSelf,
		Synopsis: "Run a server, a node, or both",
		Help:     help,
		Examples: []string{"berth agent -dev", "berth agent -config /etc/berth"},
		Flags:    flags,
		Local:    true,
		Run:      runCommand,
	}
}

// option is a flag that changes the configuration if it is given.
type option struct {
	cli.Flag
	apply func(c *Config, call *cli.Call)
}

var options = []option{
	boolean("server", "Run a server", func(c *Config, v bool) { c.Server.Enabled = v }),
	boolean("client", "Run a node", func(c *Config, v bool) { c.Client.Enabled = v }),
	text("data-dir", "path", "The absolute path of the directory for all data",
		func(c *Config, v string) { c.DataDir = v }),
	text("bind", "address", "The address to listen on", func(c *Config, v string) { c.BindAddr = v }),
	text("name", "name", "The agent's name. Default: the host's", func(c *Config, v string) { c.Name = v }),
	text("dc", "name", "The datacenter", func(c *Config, v string) { c.Datacenter = v }),
	text("region", "name", "The region", func(c *Config, v string) { c.Region = v }),
	text("log-level", "level", "trace, debug, info, warn or error",
		func(c *Config, v string) { c.LogLevel = v }),
	boolean("log-json", "Log in JSON", func(c *Config, v bool) { c.LogJSON = v }),
	port("http-port", "The port of the HTTP API; 0 takes any", func(c *Config, v int) { c.Ports.HTTP = v }),
	port("rpc-port", "The port of RPC and Raft; 0 takes any", func(c *Config, v int) { c.Ports.RPC = v }),
	port("serf-port", "The port of gossip; 0 takes any", func(c *Config, v int) { c.Ports.Serf = v }),
	number("bootstrap-expect", "number", "How many servers form the cluster",
		func(c *Config, v int) { c.Server.BootstrapExpect = v }),
	text("retry-join", "addresses", "Gossip addresses of other servers, comma-separated",
		func(c *Config, v string) { c.Server.RetryJoin = strings.Split(v, ",") }),
	text("servers", "addresses", "RPC addresses of the servers that a node joins, comma-separated",
		func(c *Config, v string) { c.Client.Servers = strings.Split(v, ",") }),
}

func boolean(name, usage string, set func(*Config, bool)) option {
	return option{cli.Flag{
		Name:  name,
		Kind:  cli.Bool,
		Usage: usage,
	}, func(c *Config, call *cli.Call) { set(c, call.Bool(name)) }}
}

func text(name, value, usage string, set func(*Config, string)) option {
	return option{cli.Flag{
		Name:  name,
		Kind:  cli.String,
		Value: value,
		Usage: usage,
	}, func(c *Config, call *cli.Call) { set(c, call.String(name)) }}
}

func number(name, value, usage string, set func(*Config, int)) option {
	return option{cli.Flag{
		Name:  name,
		Kind:  cli.Number,
		Value: value,
		Usage: usage,
	}, func(c *Config, call *cli.Call) { set(c, int(call.Number(name))) }}
}

func port(name, usage string, set func(*Config, int)) option { return number(name, "port", usage, set) }

// configOf returns the defaults, overridden by the files and then by the options.
func configOf(call *cli.Call) (Config, error) {
	c := DefaultConfig()
	if call.Bool("dev") {
		c.dev()
	}
	if err := c.LoadFiles(call.Strings("config")); err != nil {
		return c, err
	}
	for _, o := range options {
		if call.Given(o.Name) {
			o.apply(&c, call)
		}
	}
	return c, nil
}

// dev sets the defaults of -dev. Files and options override them.
func (c *Config) dev() {
	c.Dev = true
	c.BindAddr = "127.0.0.1"
	c.Server.Enabled = true
	c.Client.Enabled = true
	c.Client.Drivers.RawExec.Enabled = true
}

func runCommand(ctx context.Context, call *cli.Call) error {
	cfg, err := configOf(call)
	if err != nil {
		return err
	}
	if cfg.Dev && cfg.DataDir == "" {
		dir, err := os.MkdirTemp("", "berth-dev-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		cfg.DataDir = dir
	}
	if err := cfg.Finish(); err != nil {
		return err
	}
	setGOGC(&cfg)
	logger := hclog.New(&hclog.LoggerOptions{
		Name:       "berth",
		Level:      hclog.LevelFromString(cfg.LogLevel),
		JSONFormat: cfg.LogJSON,
		Output:     call.Err,
	})
	a, err := New(cfg, logger)
	if err != nil {
		return err
	}
	defer onHangup(func() { reload(call, logger) })()
	call.Printf("berth %s\nHTTP API:  http://%s\nData:      %s\n", version.Version, a.HTTPAddr(), cfg.DataDir)
	return a.runUntilSignal(ctx)
}

// onHangup calls fn at every SIGHUP. stop waits for a running call, after which fn is not called again.
func onHangup(fn func()) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ended := make(chan struct{})
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

// reload reads the files again and applies the log level, which is the only setting that may change at run
// time. An invalid configuration changes nothing.
func reload(call *cli.Call, logger hclog.Logger) {
	cfg, err := configOf(call)
	if err == nil && hclog.LevelFromString(cfg.LogLevel) == hclog.NoLevel {
		err = structs.Invalidf("log_level is %q", cfg.LogLevel)
	}
	if err != nil {
		logger.Error("failed to reload the configuration", "error", err)
		return
	}
	logger.SetLevel(hclog.LevelFromString(cfg.LogLevel))
	logger.Info("configuration reloaded", "log_level", cfg.LogLevel)
}
