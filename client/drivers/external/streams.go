package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"berth/client/driver"
	"berth/internal/backoff"
	protocol "berth/plugins/protocol/driver"
	"berth/plugins/protocol/shared"
	"berth/structs"
)

const (
	maxText       = 1024 // bytes of a description or an event
	maxAttributes = 128
	// maxEventAge bounds how old an event may say it is. Without a credible time it has that of its arrival.
	maxEventAge = 24 * time.Hour
)

// reopen paces a stream that the plugin closes. Tests shorten it.
var reopen = backoff.Backoff{
	Min: 5 * time.Second,
	Max: 2 * time.Minute,
}

// followFingerprints passes the health of the driver on until ctx ends.
func (d *Driver) followFingerprints(ctx context.Context, service protocol.DriverClient, h *health) error {
	pace := reopen
	for {
		err := readAll(ctx, func(ctx context.Context) (stream[protocol.FingerprintResponse], error) {
			return service.Fingerprint(ctx, &protocol.FingerprintRequest{})
		}, func(answer *protocol.FingerprintResponse) {
			pace.Reset()
			h.setReport(infoOf(answer))
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

func infoOf(answer *protocol.FingerprintResponse) *structs.DriverInfo {
	info := &structs.DriverInfo{
		Attributes:        map[string]string{},
		Detected:          answer.GetHealth() != protocol.FingerprintResponse_UNDETECTED,
		Healthy:           answer.GetHealth() == protocol.FingerprintResponse_HEALTHY,
		HealthDescription: structs.Cut(answer.GetHealthDescription(), maxText),
		UpdateTime:        time.Now(),
	}
	attributes := answer.GetAttributes()
	for _, name := range firstNames(attributes) {
		info.Attributes[name] = structs.Cut(attributeText(attributes[name]), maxText)
	}
	return info
}

// firstNames returns the first names in order: as many as are allowed, always the same.
func firstNames[V any](values map[string]V) []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(values)), func(name string) bool {
		return len(name) > maxText
	})
	return names[:min(len(names), maxAttributes)]
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

func eventOf(e *protocol.DriverTaskEvent) driver.TaskEvent {
	event := driver.TaskEvent{
		AllocID:     e.GetAllocId(),
		Task:        e.GetTaskName(),
		Message:     structs.Cut(e.GetMessage(), maxText),
		Annotations: map[string]string{},
		Time:        time.Now(),
	}
	at := e.GetTimestamp()
	if at.CheckValid() == nil && at.AsTime().Before(event.Time) && event.Time.Sub(at.AsTime()) < maxEventAge {
		event.Time = at.AsTime()
	}
	annotations := e.GetAnnotations()
	for _, name := range firstNames(annotations) {
		event.Annotations[name] = structs.Cut(annotations[name], maxText)
	}
	return event
}
