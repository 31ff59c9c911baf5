package devices

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/types/known/durationpb"

	"berth/client/drivers/catalog"
	"berth/client/drivers/protocol/device"
	"berth/internal/backoff"
	"berth/structs"
)

// statsInterval is the time between two statistics of a device.
const statsInterval = 10 * time.Second

// reopen paces a stream that the plugin closes. Tests shorten it.
var reopen = backoff.Backoff{
	Min: 5 * time.Second,
	Max: 2 * time.Minute,
}

// reportPause is the time between two reports of a plugin that become reports of the node. Each of them is a
// log entry of the servers.
const reportPause = time.Second

// plugin is an external device plugin.
type plugin struct {
	supervisor catalog.Supervisor
	logger     hclog.Logger

	mu      sync.Mutex
	service device.DevicePluginClient // nil: it does not run
}

func newPlugin(cfg Config, name string, logger hclog.Logger) *plugin {
	return &plugin{
		supervisor: catalog.Supervisor{Catalog: cfg.Catalog, Records: cfg.Records, Name: name},
		logger:     logger.Named(name),
	}
}

// run implements source. The supervisor starts the program again when it has ended.
func (p *plugin) run(ctx context.Context, to reporter) {
	p.supervisor.Failed = func(err error) {
		// Reservations are unavailable from now on.
		p.setService(nil)
		to.fault(err)
		// The last statistics would stay otherwise.
		to.stats(nil)
	}
	p.supervisor.Session = func(ctx context.Context, process *catalog.Process) error {
		service := device.NewDevicePluginClient(process.Conn())
		p.setService(service)
		// Each stream is read until ctx ends, also while the other one fails.
		var both sync.WaitGroup
		both.Go(func() { p.followStats(ctx, service, to) })
		err := p.followGroups(ctx, service, to)
		both.Wait()
		return err
	}
	p.supervisor.Run(ctx)
}

// setService sets the connection for reservations, nil while the process does not run.
func (p *plugin) setService(s device.DevicePluginClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.service = s
}

// followGroups reads fingerprints until ctx ends. A plugin without an open stream has no devices.
func (p *plugin) followGroups(ctx context.Context, service device.DevicePluginClient, to reporter) error {
	pace := reopen
	for {
		err := p.readGroups(ctx, service, func(groups []*structs.NodeDeviceResource) {
			// The stream works, so its next fault is a first one.
			pace.Reset()
			to.groups(groups)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		to.fault(err)
		wait := pace.After(err)
		p.logger.Warn("failed to fingerprint devices", "again_in", wait, "error", err)
		if !backoff.Sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// readGroups reads one stream. It passes the first fingerprint on at once, and then the newest of each pause.
func (p *plugin) readGroups(
	ctx context.Context, service device.DevicePluginClient, report func([]*structs.NodeDeviceResource),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := service.Fingerprint(ctx, &device.FingerprintRequest{})
	if err != nil {
		return err
	}

	newest := make(chan []*structs.NodeDeviceResource, 1)
	var reporting sync.WaitGroup
	reporting.Go(func() {
		for groups := range newest {
			report(groups)
			backoff.Sleep(ctx, reportPause)
		}
	})

	// In reverse order: no more reports come, the pause between them ends, and the goroutine ends.
	defer reporting.Wait()
	defer cancel()
	defer close(newest)
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}

		// A report that makes no sense ends the stream: the plugin has no devices until it is open again.
		groups, err := groupsOf(answer)
		if err != nil {
			return err
		}

		select {
		case <-newest: // nobody has seen the one before
		default:
		}

		newest <- groups
	}
}

// followStats reads statistics until ctx ends. Devices need none.
func (p *plugin) followStats(ctx context.Context, service device.DevicePluginClient, to reporter) {
	pace := reopen
	for {
		err := p.readStats(ctx, service, to)
		if ctx.Err() != nil {
			return
		}
		wait := pace.After(err)
		p.logger.Debug("failed to read statistics of devices", "again_in", wait, "error", err)
		if !backoff.Sleep(ctx, wait) {
			return
		}
	}
}

// readStats reads one stream of statistics until it ends.
func (p *plugin) readStats(ctx context.Context, service device.DevicePluginClient, to reporter) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request := &device.StatsRequest{CollectionInterval: durationpb.New(statsInterval)}
	stream, err := service.Stats(ctx, request)
	if err != nil {
		return err
	}

	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}

		stats, err := statsOf(answer)
		if err != nil {
			return err
		}

		to.stats(stats)
	}
}

// reserve implements source. The protocol has neither the allocation nor the group.
func (p *plugin) reserve(ctx context.Context, _, _ string, ids []string) (*Reservation, error) {
	p.mu.Lock()
	service := p.service
	p.mu.Unlock()
	if service == nil {
		return nil, structs.Unavailablef("%w", errGone)
	}
	// The call may take long, so it holds no lock.
	answer, err := service.Reserve(ctx, &device.ReserveRequest{DeviceIds: ids})
	if err != nil { // plugins have no codes for what can be repeated
		return nil, structs.Unavailablef("plugin: %w", err)
	}
	if answer.GetContainerRes() == nil {
		return nil, structs.Internalf("plugin: the answer holds no reservation")
	}
	return reservationOf(answer.GetContainerRes())
}
