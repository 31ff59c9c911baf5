package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"berth/internal/version"
	"berth/structs"
)

const usage = `Usage: berth agent -dev
       berth agent -config FILE... [flags]

  Runs a server, a node, or both. -dev is one process with everything, on
  loopback, that keeps nothing when it ends. SIGTERM and SIGINT end the agent;
  tasks go on running and are found again at the next start (not with -dev).
  SIGHUP reads the log level from the configuration again.

Flags (they override the configuration):
`

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

// flags are the command line of an agent. Those that were not given leave the configuration alone.
type flags struct {
	set     *flag.FlagSet
	configs list
	dev     bool
	apply   []func(c *Config)
}

func newFlags(stderr io.Writer) *flags {
	f := &flags{set: flag.NewFlagSet("agent", flag.ContinueOnError)}
	f.set.SetOutput(stderr)
	f.set.Usage = func() { fmt.Fprint(stderr, usage); f.set.PrintDefaults() }
	f.set.Var(&f.configs, "config", "configuration `file` or directory; may be given several times")
	f.set.BoolVar(&f.dev, "dev", false, "one process with server, node and HTTP on loopback; keeps nothing")
	f.boolean("server", "run a server", func(c *Config, v bool) { c.Server.Enabled = v })
	f.boolean("client", "run a node", func(c *Config, v bool) { c.Client.Enabled = v })
	f.str("data-dir", "absolute `path` of all that the agent keeps", func(c *Config, v string) { c.DataDir = v })
	f.str("bind", "`address` to listen on", func(c *Config, v string) { c.BindAddr = v })
	f.str("name", "the agent's `name`; default the host's", func(c *Config, v string) { c.Name = v })
	f.str("dc", "`datacenter`", func(c *Config, v string) { c.Datacenter = v })
	f.str("region", "`region`", func(c *Config, v string) { c.Region = v })
	f.str("log-level", "trace, debug, info, warn or error", func(c *Config, v string) { c.LogLevel = v })
	f.boolean("log-json", "log in JSON", func(c *Config, v bool) { c.LogJSON = v })
	f.num("http-port", "HTTP `port`; 0 takes any", func(c *Config, v int) { c.Ports.HTTP = v })
	f.num("rpc-port", "RPC and Raft `port`; 0 takes any", func(c *Config, v int) { c.Ports.RPC = v })
	f.num("serf-port", "gossip `port`; 0 takes any", func(c *Config, v int) { c.Ports.Serf = v })
	f.num("bootstrap-expect", "`number` of servers that form the cluster", func(c *Config, v int) { c.Server.BootstrapExpect = v })
	f.str("retry-join", "gossip `addresses` of other servers, comma-separated", func(c *Config, v string) { c.Server.RetryJoin = strings.Split(v, ",") })
	f.str("servers", "RPC `addresses` of the servers a node joins, comma-separated", func(c *Config, v string) { c.Client.Servers = strings.Split(v, ",") })
	return f
}

func (f *flags) str(name, help string, set func(*Config, string)) {
	f.set.Func(name, help, func(v string) error {
		f.apply = append(f.apply, func(c *Config) { set(c, v) })
		return nil
	})
}

func (f *flags) boolean(name, help string, set func(*Config, bool)) {
	f.set.BoolFunc(name, help, func(v string) error {
		if v != "true" && v != "false" {
			return errors.New("expected true or false")
		}
		f.apply = append(f.apply, func(c *Config) { set(c, v == "true") })
		return nil
	})
}

func (f *flags) num(name, help string, set func(*Config, int)) {
	f.set.Func(name, help, func(v string) error {
		var n int
		if _, err := fmt.Sscanf(v, "%d", &n); err != nil || fmt.Sprint(n) != v {
			return errors.New("expected a number")
		}
		f.apply = append(f.apply, func(c *Config) { set(c, n) })
		return nil
	})
}

// config puts the configuration together: defaults, then files, then flags.
func (f *flags) config() (Config, error) {
	c := DefaultConfig()
	if f.dev {
		c.dev()
	}
	if err := c.LoadFiles(f.configs); err != nil {
		return c, err
	}
	for _, apply := range f.apply {
		apply(&c)
	}
	return c, nil
}

// dev makes the configuration of -dev; files and flags still go over it.
func (c *Config) dev() {
	c.Dev = true
	c.BindAddr = "127.0.0.1"
	c.Server.Enabled, c.Client.Enabled = true, true
	c.Client.Drivers.RawExec.Enabled = true
}

// Command runs `berth agent` with its arguments until a signal or ctx ends it.
func Command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags(stderr)
	if err := f.set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return structs.Errorf(structs.KindInvalid, "%w", err)
	}
	if f.set.NArg() > 0 {
		return structs.Errorf(structs.KindInvalid, "unexpected argument %q", f.set.Arg(0))
	}
	cfg, err := f.config()
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
	return run(ctx, f, cfg, stdout, stderr)
}

func run(ctx context.Context, f *flags, cfg Config, stdout, stderr io.Writer) error {
	logger := hclog.New(&hclog.LoggerOptions{
		Name: "berth", Level: hclog.LevelFromString(cfg.LogLevel), JSONFormat: cfg.LogJSON, Output: stderr,
	})
	a, err := New(cfg, logger)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	reloading := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(reloading)
		for {
			select {
			case <-hup:
				reload(f, logger)
			case <-ended:
				return
			}
		}
	}()
	fmt.Fprintf(stdout, "berth %s\nHTTP API:  http://%s\nData:      %s\n", version.Version, a.HTTPAddr(), cfg.DataDir)
	err = a.Run(ctx)
	close(ended)
	<-reloading
	return err
}

// reload reads the files again and takes over what may change while the agent runs: the log level. A
// configuration with faults changes nothing.
func reload(f *flags, logger hclog.Logger) {
	cfg, err := f.config()
	if err == nil && hclog.LevelFromString(cfg.LogLevel) == hclog.NoLevel {
		err = structs.Errorf(structs.KindInvalid, "log_level is %q", cfg.LogLevel)
	}
	if err != nil {
		logger.Error("the configuration was not reloaded", "error", err)
		return
	}
	logger.SetLevel(hclog.LevelFromString(cfg.LogLevel))
	logger.Info("configuration reloaded", "log_level", cfg.LogLevel)
}
