package hostpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	client "berth/csi"
	"berth/internal/keylock"
	"berth/plugins/hostpath/disk"
	"berth/structs"
)

// The defaults of a Config.
const (
	DefaultName        = "hostpath.csi.berth.io"
	DefaultTopologyKey = "topology.berth.io/node"
	defaultVersion     = "dev"
)

// Config configures the driver.
type Config struct {
	Endpoint    string // unix:///path, unix:/path or an absolute path
	NodeID      string // this node's name, unique among the nodes that run the driver; at most 256 bytes
	DataDir     string // the directory of the volumes; Run makes a missing one
	Capacity    int64  // bytes that volumes and snapshots may have together; 0: the file system's
	MaxVolumes  int64  // reported to the orchestrator as the limit of this node; 0: none
	TopologyKey string // DefaultTopologyKey if ""
	Name        string // of the driver, DefaultName if ""
	Version     string
	Logger      hclog.Logger
}

// Validate reports all faults at once.
func (c *Config) Validate() error {
	var faults []string
	add := func(bad bool, text string) {
		if bad {
			faults = append(faults, text)
		}
	}

	if _, err := client.SocketPath(c.Endpoint); err != nil {
		faults = append(faults, err.Error())
	}

	add(c.NodeID == "", "node id is missing")
	add(len(c.NodeID) > 256, "node id is longer than 256 bytes")
	add(!filepath.IsAbs(c.DataDir),
		fmt.Sprintf("data directory %q is not an absolute path", c.DataDir))
	add(filepath.Clean(c.DataDir) == "/", "the data directory cannot be /")
	add(c.Capacity < 0, "capacity is negative")
	add(c.MaxVolumes < 0, "max volumes is negative")
	if len(faults) == 0 {
		return nil
	}

	return structs.Invalidf("hostpath: %s", strings.Join(faults, "; "))
}

func (c *Config) defaults() {
	c.TopologyKey = cmp.Or(c.TopologyKey, DefaultTopologyKey)
	c.Name = cmp.Or(c.Name, DefaultName)
	c.Version = cmp.Or(c.Version, defaultVersion)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	c.DataDir = filepath.Clean(c.DataDir)
}

// driver is a running server. Until ready is set it serves only the early calls.
type driver struct {
	cfg    Config
	ctx    context.Context // of the run: operations end with it, not with their callers
	logger hclog.Logger
	locks  keylock.Map // of volumes, snapshots and names: one call at a time
	store  *disk.Store

	booking sync.Mutex // held while capacity is checked and reserved
	ready   atomic.Bool
}

// identity serves the calls about the driver itself.
type identity struct {
	csi.UnimplementedIdentityServer
	*driver
}

// controller serves the calls that make, change and list volumes and snapshots.
type controller struct {
	csi.UnimplementedControllerServer
	*driver
}

// node serves the calls that stage and publish volumes.
type node struct {
	csi.UnimplementedNodeServer
	*driver
}

// Run serves until ctx ends. The socket exists at once. Until the data directory is free (an earlier process
// may not have left it yet) and the effects of a crash are repaired, a call returns UNAVAILABLE and Probe
// "not ready". When Run returns, no call runs and the socket is gone.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}

	cfg.defaults()
	listener, err := listenAt(cfg.Endpoint)
	if err != nil {
		return err
	}

	group, ctx := errgroup.WithContext(ctx)
	d := &driver{
		cfg:    cfg,
		ctx:    ctx,
		logger: cfg.Logger,
		// No call waits for another one: see lockKeys.
		locks: keylock.Map{MaxUsers: 1},
	}

	srv := newServer(d)
	cfg.Logger.Info("csi driver listening",
		"endpoint", cfg.Endpoint,
		"node_id", cfg.NodeID,
		"data_dir", cfg.DataDir)

	group.Go(func() error {
		err := srv.Serve(listener)
		if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("hostpath: serving: %w", err)
		}
		return nil
	})

	group.Go(d.openDriver)
	group.Go(func() error {
		<-ctx.Done()
		stopServer(srv)
		return nil
	})

	err = group.Wait()
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
	}

	return err
}

// newServer makes the server of all calls. Its end waits for the handlers, so that no call runs after Run.
func newServer(d *driver) *grpc.Server {
	srv := grpc.NewServer(
		grpc.UnaryInterceptor(d.intercept),
		grpc.WaitForHandlers(true))
	csi.RegisterIdentityServer(srv, &identity{driver: d})
	csi.RegisterControllerServer(srv, &controller{driver: d})
	csi.RegisterGroupControllerServer(srv, d.groupService())
	csi.RegisterNodeServer(srv, &node{driver: d})
	return srv
}

// openDriver opens the data directory and reconciles its content.
func (d *driver) openDriver() error {
	// The end of the run is no fault.
	if err := d.awaitDataDir(); err != nil {
		if d.ctx.Err() != nil {
			return nil
		}
		return err
	}
	if err := d.reconcile(); err != nil {
		return fmt.Errorf("hostpath: %w", err)
	}
	d.ready.Store(true)
	d.logger.Info("csi driver ready",
		"volumes", len(d.store.Volumes.List()),
		"snapshots", len(d.store.Snapshots.List()))
	return nil
}

// awaitDataDir waits until no other process uses the data directory.
func (d *driver) awaitDataDir() (err error) {
	d.store, err = disk.OpenFreeStore(d.ctx, d.cfg.DataDir, func() {
		d.logger.Info("waiting for another process to leave the data directory", "data_dir", d.cfg.DataDir)
	})
	if err != nil {
		return fmt.Errorf("hostpath: data directory %s: %w", d.cfg.DataDir, err)
	}
	return nil
}
