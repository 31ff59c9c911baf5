package external

import (
	"context"
	"errors"
	"fmt"
	"io"
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
)

// reopen paces a stream that the plugin closes.
var reopen = backoff.Backoff{Min: 5 * time.Second, Max: 2 * time.Minute}

// followFingerprints reports the health of the driver until ctx ends.
func (d *Driver) followFingerprints(ctx context.Context, service protocol.DriverClient) error {
	pace := reopen
	for {
		err := readAll(ctx, func(ctx context.Context) (stream[protocol.FingerprintResponse], error) {
			return service.Fingerprint(ctx, &protocol.FingerprintRequest{})
		}, func(answer *protocol.FingerprintResponse) {
			pace.Reset()
			d.setInfo(infoOf(answer))
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait := pace.After(err)
		d.logger.Warn("failed to fingerprint the driver", "again_in", wait, "error", err)
		d.setInfo(&structs.DriverInfo{
			HealthDescription: structs.Cut(fmt.Sprintf("failed to fingerprint the driver: %v", err), maxText),
			UpdateTime:        time.Now(),
		})
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
	for name, a := range answer.GetAttributes() {
		if len(info.Attributes) < maxAttributes && len(name) <= maxText {
			info.Attributes[name] = structs.Cut(attributeText(a), maxText)
		}
	}
	return info
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
	if at := e.GetTimestamp(); at.CheckValid() == nil {
		event.Time = at.AsTime()
	}
	for name, value := range e.GetAnnotations() {
		if len(event.Annotations) < maxAttributes && len(name) <= maxText {
			event.Annotations[name] = structs.Cut(value, maxText)
		}
	}
	return event
}
