package external

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	protocol "berth/client/drivers/protocol/driver"
	"berth/structs"
)

// shippedInterval is a real agent's. TestMain shortens it for the other tests.
var shippedInterval = probeInterval

// hungDriver answers no call.
type hungDriver struct{ protocol.DriverClient }

func (hungDriver) Capabilities(
	ctx context.Context, _ *protocol.CapabilitiesRequest, _ ...grpc.CallOption,
) (*protocol.CapabilitiesResponse, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// A probe begins every 5 s, and an answer may take 10 s.
func TestProbe_FindsAHungPluginWithin15Seconds(t *testing.T) {
	short := probeInterval
	probeInterval = shippedInterval
	t.Cleanup(func() { probeInterval = short })
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		found := make(chan *structs.DriverInfo, 1)
		h := &health{began: begin, publish: func(info *structs.DriverInfo) { found <- info }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			probe(ctx, hungDriver{}, h)
		}()
		info := <-found
		cancel()
		<-ended
		took := time.Since(begin)
		if took > 15*time.Second || info.Healthy ||
			!strings.Contains(info.HealthDescription, "does not answer") {
			t.Errorf("healthy %v after %s: %s", info.Healthy, took, info.HealthDescription)
		}
	})
}

// A process that answers has reportTimeout for its first report. Until then nothing is known of its health.
func TestProbe_GivesAPluginTimeToReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var published []*structs.DriverInfo
		h := &health{
			began:   time.Now(),
			publish: func(info *structs.DriverInfo) { published = append(published, info) },
		}
		time.Sleep(reportTimeout - time.Nanosecond)
		h.setProbe(nil)
		if len(published) > 0 {
			t.Errorf("it counts as unhealthy too soon: %s", published[0].HealthDescription)
		}
		time.Sleep(time.Nanosecond)
		h.setProbe(nil)
		if len(published) != 1 || published[0].Healthy ||
			!strings.Contains(published[0].HealthDescription, "has not reported") {
			t.Errorf("after the time for a report: %+v", published)
		}
	})
}
