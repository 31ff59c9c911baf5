package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
	"berth/client/drivers/protocol/shared"
	"berth/internal/backoff"
	"berth/structs"
)

// The bounds of a report keep the row of a node with catalog.MaxPrograms drivers within the limits of
// the servers: the row has each attribute twice. An event with more details would lose all of them there.
const (
	maxText           = 1024 // bytes of a description, an event or a value
	maxPairs          = 48   // attributes, or details of an event
	maxAttributeBytes = 6 << 10
	maxDetailBytes    = 2 << 10
	// maxEventAge bounds how old an event or a measurement may say it is.
	maxEventAge = 24 * time.Hour
)

// Tests shorten the times.
var (
	// reopen paces a stream that the plugin closes.
	reopen = backoff.Backoff{
		Min: 5 * time.Second,
		Max: 2 * time.Minute,
	}

	// reportPause is the shortest time between two reports of a driver: each may change the row of the node.
	reportPause = time.Second
)

// followFingerprints passes the health of the driver on until ctx ends.
func (d *Driver) followFingerprints(ctx context.Context, service protocol.DriverClient, h *health) error {
	pace := reopen
	for {
		err := readAll(ctx, func(ctx context.Context) (stream[protocol.FingerprintResponse], error) {
			return service.Fingerprint(ctx, &protocol.FingerprintRequest{})
		}, func(answer *protocol.FingerprintResponse) {
			pace.Reset()
			info := infoOf(answer)
			d.addVersion(info)
			d.addIsolation(info)
			h.setReport(info)
			// A plugin that sends more waits: gRPC holds its stream up until this side reads on.
			backoff.Sleep(ctx, reportPause)
		})

		if ctx.Err() != nil {
			return ctx.Err()
		}

		wait := pace.After(err)
		d.logger.Warn("failed to fingerprint the driver", "again_in", wait, "error", err)
		h.setReport(unhealthy("failed to fingerprint the driver: %v", err))
		if !backoff.Sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// followEvents passes on the events of tasks until ctx ends.
func (d *Driver) followEvents(ctx context.Context, service protocol.DriverClient) {
	pace := reopen
	for {
		err := readAll(ctx, func(ctx context.Context) (stream[protocol.DriverTaskEvent], error) {
			return service.TaskEvents(ctx, &protocol.TaskEventsRequest{})
		}, func(e *protocol.DriverTaskEvent) {
			pace.Reset()
			// The handler of an event may take a while, and holds up only this stream.
			d.cfg.Events(eventOf(e))
		})

		if ctx.Err() != nil {
			return
		}

		wait := pace.After(err)
		d.logger.Debug("failed to read the events of tasks", "again_in", wait, "error", err)
		if !backoff.Sleep(ctx, wait) {
			return
		}
	}
}

// stream is the reading end of a gRPC stream.
type stream[T any] interface{ Recv() (*T, error) }

// readAll opens a stream and passes on what it sends. It returns why the stream has ended.
func readAll[T any](ctx context.Context, open func(context.Context) (stream[T], error), each func(*T)) error {
	// The cancel frees the stream: gRPC keeps one that is not read to its end.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := open(ctx)
	if err != nil {
		return err
	}
	for {
		answer, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return errEnded
		}
		if err != nil {
			return err
		}
		each(answer)
	}
}

// infoOf converts a report. A plugin that cannot tell its state is not usable, but runs on.
func infoOf(answer *protocol.FingerprintResponse) *structs.DriverInfo {
	if text := answer.GetErr(); text != "" {
		return unhealthy("the driver plugin failed to find out its health: %s", text)
	}
	return &structs.DriverInfo{
		Attributes:        firstPairs(answer.GetAttributes(), attributeText, maxAttributeBytes),
		Detected:          answer.GetHealth() != protocol.FingerprintResponse_UNDETECTED,
		Healthy:           answer.GetHealth() == protocol.FingerprintResponse_HEALTHY,
		HealthDescription: structs.Cut(answer.GetHealthDescription(), maxText),
		UpdateTime:        time.Now(),
	}
}

// firstPairs returns the first pairs in the order of their names that fit into the bounds: always the same.
func firstPairs[V any](values map[string]V, format func(V) string, most int) map[string]string {
	pairs := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := structs.Cut(format(values[name]), maxText)
		size := len(name) + len(value)
		// A later pair may be small enough for the rest.
		if size > most || len(pairs) == maxPairs {
			continue
		}
		most -= size
		pairs[name] = value
	}
	return pairs
}

// addVersion adds the version of the plugin, unless the driver has an attribute for it.
func (d *Driver) addVersion(info *structs.DriverInfo) {
	name := "driver." + d.name + ".version"
	if info.Attributes[name] == "" && d.cfg.Version != "" {
		info.Attributes[name] = d.cfg.Version
	}
}

// addIsolation adds whether the driver starts tasks in the network of an allocation.
func (d *Driver) addIsolation(info *structs.DriverInfo) {
	d.mu.Lock()
	joins := joinsNetworks(d.can)
	d.mu.Unlock()
	name := structs.AttrNetworkNamespace(d.name)
	delete(info.Attributes, name) // what the node knows is not what the plugin says
	if joins {
		info.Attributes[name] = "1"
	}
}

// attributeText is an attribute as the constraints of jobs compare it.
func attributeText(a *shared.Attribute) string {
	switch v := a.GetValue().(type) {
	case *shared.Attribute_StringVal:
		return v.StringVal
	case *shared.Attribute_BoolVal:
		return fmt.Sprint(v.BoolVal)
	case *shared.Attribute_IntVal:
		return fmt.Sprint(v.IntVal) + a.GetUnit()
	case *shared.Attribute_FloatVal:
		return fmt.Sprint(v.FloatVal) + a.GetUnit()
	}
	return ""
}

// eventOf converts an event. The plugin names the task itself, and may name any: the names are only looked
// up.
func eventOf(e *protocol.DriverTaskEvent) driver.TaskEvent {
	asIs := func(text string) string { return text }
	return driver.TaskEvent{
		AllocID:     structs.Cut(e.GetAllocId(), structs.MaxName),
		Task:        structs.Cut(e.GetTaskName(), structs.MaxName),
		Message:     structs.Cut(e.GetMessage(), maxText),
		Annotations: firstPairs(e.GetAnnotations(), asIs, maxDetailBytes),
		Time:        credibleTime(e.GetTimestamp()),
	}
}

// credibleTime returns the time that a plugin gives, or now if it gives none or one that cannot be.
func credibleTime(given *timestamppb.Timestamp) time.Time {
	now := time.Now()
	at := given.AsTime()
	if given.CheckValid() != nil || at.After(now) || now.Sub(at) > maxEventAge {
		return now
	}
	return at
}
