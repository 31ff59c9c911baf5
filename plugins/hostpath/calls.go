package hostpath

import (
	"context"
	"errors"
	"path"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/keylock"
	"berth/plugins/hostpath/disk"
)

// earlyCalls lists the calls that the driver serves before it is ready.
var earlyCalls = []string{"Probe", "GetPluginInfo", "GetPluginCapabilities"}

// intercept handles every call: it rejects the call if the driver is not ready, logs it, gives its error a
// code, and turns a panic into an error of this call.
func (d *driver) intercept(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, serve grpc.UnaryHandler,
) (resp any, err error) {
	method := path.Base(info.FullMethod)
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			d.logger.Error("csi call panicked",
				"method", method, "panic", p,
				"stack", string(debug.Stack()))
			err = disk.Faultf(codes.Internal, "%s panicked: %v", method, p)
		}

		took := time.Since(start)
		if err == nil {
			d.logger.Debug("csi call", "method", method, "took", took)
			return
		}

		code := disk.CodeOf(err)
		d.logger.Warn("csi call failed",
			"method", method, "code", code.String(),
			"error", err, "took", took)
		resp = nil
		err = status.Error(code, err.Error())
	}()

	if !d.ready.Load() && !slices.Contains(earlyCalls, method) {
		return nil, disk.Faultf(codes.Unavailable, "the driver is starting")
	}

	return serve(ctx, req)
}

// lockKeys locks all keys or none. If a key is in use the error is ABORTED, as the specification demands.
func (d *driver) lockKeys(keys ...string) (release func(), err error) {
	release, err = d.locks.Lock(d.ctx, "a call", keys...)
	var used *keylock.Error
	if errors.As(err, &used) {
		return nil, disk.Faultf(codes.Aborted, "another call works on %s", used.Key)
	}
	return release, err
}
