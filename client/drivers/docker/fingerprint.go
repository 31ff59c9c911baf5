package docker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/docker/taskconfig"
	"berth/internal/backoff"
	"berth/internal/netfault"
	"berth/structs"
)

const (
	// lookInterval is the time between two looks at a daemon that answers.
	lookInterval = 30 * time.Second
	// maxDescription bounds the description of a driver's health.
	maxDescription = 1024
)

// lookTimeout bounds one look.
var lookTimeout = 10 * time.Second

// absence paces the looks at a daemon that does not answer.
var absence = backoff.Backoff{Min: 500 * time.Millisecond, Max: 15 * time.Second}

// Run reports the health of the daemon until ctx ends, and removes unused images and dangling containers. It
// returns when all that it started has ended.
func (d *Driver) Run(ctx context.Context, report func(*structs.DriverInfo)) {
	var all sync.WaitGroup
	all.Go(func() { d.images.Run(ctx) })
	all.Go(func() { d.removeDangling(ctx) })
	all.Go(func() { d.keepOutput(ctx) })
	d.watch(ctx, report)
	all.Wait()
}

// watch looks at the daemon until ctx ends: at intervals, and at once when a call has found it away.
func (d *Driver) watch(ctx context.Context, report func(*structs.DriverInfo)) {
	pause := absence
	for {
		info := d.Fingerprint(ctx)
		if ctx.Err() != nil {
			return
		}

		report(info)
		wait := lookInterval
		if info.Healthy {
			pause.Reset()
		} else {
			wait = pause.Next()
		}

		if !d.awaitDoubt(ctx, wait, info.Healthy) {
			return
		}
	}
}

// awaitDoubt waits for the time of the next look. Doubts do not bring it forward while the daemon is known to
// be away.
func (d *Driver) awaitDoubt(ctx context.Context, wait time.Duration, healthy bool) bool {
	doubtful := d.doubtful
	if !healthy {
		doubtful = nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-doubtful:
		return true
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Fingerprint implements driver.Driver. It asks the daemon about itself. Run passes each change on.
func (d *Driver) Fingerprint(ctx context.Context) *structs.DriverInfo {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	info := d.describe(ctx)
	info.UpdateTime = time.Now()
	return info
}

// describe makes a report of the daemon's answer, and keeps the parts that the starts of tasks need.
func (d *Driver) describe(ctx context.Context) *structs.DriverInfo {
	found, err := d.engine.Info(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.runtimes.note("") // the next daemon may have another one
		return describeFailure(d.cfg, d.detected, err)
	}

	d.detected = true
	d.liveRestore = found.LiveRestore
	d.Note(found.CgroupDriver)
	d.runtimes.note(found.DefaultRuntime)

	info := &structs.DriverInfo{
		Detected:          true,
		Healthy:           found.OSType == "linux",
		HealthDescription: "Healthy",
		Attributes:        attributesOf(d.cfg, found),
	}

	err = d.pauses.check(found)
	if err == nil {
		info.Attributes[structs.AttrNetworkNamespace(Name)] = "1"
	} else {
		d.pauses.tell.Do(func() {
			d.logger.Warn("containers cannot join the networks of groups on this node", "reason", err)
		})
	}

	// The texts are the daemon's, and a fingerprint has bounds.
	for name, value := range info.Attributes {
		info.Attributes[name] = structs.Cut(value, structs.MaxName)
	}

	if !info.Healthy {
		info.HealthDescription = fmt.Sprintf("the docker daemon runs containers of %q, berth needs linux",
			structs.Cut(found.OSType, structs.MaxQuoted))
	}

	return info
}

// describeFailure makes the report of a daemon that does not answer. detected reports whether it has answered
// before.
func describeFailure(cfg taskconfig.Settings, detected bool, err error) *structs.DriverInfo {
	text := err.Error()
	if structs.IsKind(err, structs.KindUnavailable) {
		text = fmt.Sprintf("no docker daemon answers at %s (%v): start dockerd, or set endpoint "+
			"in the client's drivers { docker { } }", cfg.Endpoint, netfault.Plain(err))
	}

	return &structs.DriverInfo{
		// The socket of a daemon that is stopped tells of a docker on this machine, too.
		Detected:          detected || cfg.SocketExists(),
		HealthDescription: structs.Cut(text, maxDescription),
	}
}

// attributesOf returns the attributes by which jobs constrain their nodes.
func attributesOf(cfg taskconfig.Settings, found *engine.Info) map[string]string {
	return map[string]string{
		"driver.docker":                    "1",
		"driver.docker.version":            found.Version,
		"driver.docker.api_version":        found.APIVersion,
		"driver.docker.os_type":            found.OSType,
		"driver.docker.cgroup_version":     found.CgroupVersion,
		"driver.docker.cgroup_driver":      found.CgroupDriver,
		"driver.docker.storage_driver":     found.StorageDriver,
		"driver.docker.runtimes":           strings.Join(found.Runtimes, ","),
		"driver.docker.live_restore":       fmt.Sprint(found.LiveRestore),
		"driver.docker.privileged.enabled": fmt.Sprint(cfg.AllowPrivileged),
		"driver.docker.volumes.enabled":    fmt.Sprint(cfg.Volumes.Enabled),
	}
}
