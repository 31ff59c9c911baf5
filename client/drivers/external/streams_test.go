package external

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/client/drivers/catalog"
	protocol "berth/client/drivers/protocol/driver"
	"berth/client/drivers/protocol/shared"
	"berth/structs"
	"berth/structs/validate/report"
)

// The servers reject a node beyond their limits: drivers with too much to say must not take it away.
func TestReports_OfAllDriversFitIntoANode(t *testing.T) {
	for _, size := range []int{1, 100, 5000} {
		n := &structs.Node{Attributes: map[string]string{}, Drivers: map[string]*structs.DriverInfo{}}
		for i := range catalog.MaxPrograms {
			name := fmt.Sprintf("%03d%s", i, strings.Repeat("n", 125))
			answer := &protocol.FingerprintResponse{
				HealthDescription: strings.Repeat("x", 10_000),
				Attributes:        map[string]*shared.Attribute{},
			}
			for j := range 100 {
				text := &shared.Attribute_StringVal{StringVal: strings.Repeat("v", size)}
				answer.Attributes[fmt.Sprintf("%d.%04d", i, j)] = &shared.Attribute{Value: text}
			}
			info := infoOf(answer)
			if len(info.Attributes) == 0 {
				t.Fatalf("nothing is left of attributes of %d bytes", size)
			}
			d := New(name, Config{Version: strings.Repeat("1", 128)}, hclog.NewNullLogger())
			d.addVersion(info)
			n.Drivers[name] = info
			maps.Copy(n.Attributes, info.Attributes)
		}
		if err := report.Node(n); err != nil {
			t.Errorf("attributes of %d bytes: %v", size, err)
		}
	}
}

// Newer plugins report that they could not find out their health, beside a value of it.
func TestReports_WithAnErrorAreUnhealthy(t *testing.T) {
	info := infoOf(&protocol.FingerprintResponse{
		Health: protocol.FingerprintResponse_HEALTHY,
		Err:    "no permission",
	})
	if info.Healthy || !strings.Contains(info.HealthDescription, "no permission") {
		t.Errorf("got %+v", info)
	}
}

// The servers drop the details of an event that has too many.
func TestEvents_FitIntoTheStateOfATask(t *testing.T) {
	e := &protocol.DriverTaskEvent{
		AllocId:     strings.Repeat("a", 10_000),
		TaskName:    strings.Repeat("t", 10_000),
		Message:     strings.Repeat("m", 10_000),
		Annotations: map[string]string{},
	}
	for i := range 100 {
		e.Annotations[fmt.Sprint(i)] = strings.Repeat("x", 500)
	}
	got := eventOf(e)
	details := structs.PairBytes(got.Annotations) + len("driver_message") + len(got.Message)
	if len(got.Annotations) == 0 || details > structs.MaxText {
		t.Errorf("%d details of %d bytes", len(got.Annotations), details)
	}
	if len(got.AllocID)+len(got.Task) > 2*structs.MaxName+10 {
		t.Errorf("it names its task in %d bytes", len(got.AllocID)+len(got.Task))
	}
}

func TestCredibleTime_IsNearThePresent(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		given *timestamppb.Timestamp
		want  time.Time
	}{
		"none":             {nil, now},
		"invalid":          {&timestamppb.Timestamp{Seconds: 1 << 60}, now},
		"in the future":    {timestamppb.New(now.Add(time.Hour)), now},
		"long ago":         {timestamppb.New(time.Unix(7, 0)), now},
		"a moment ago":     {timestamppb.New(now.Add(-time.Hour)), now.Add(-time.Hour)},
		"of another epoch": {&timestamppb.Timestamp{Seconds: -62135596800}, now},
	} {
		if got := credibleTime(c.given); got.Sub(c.want).Abs() > time.Minute {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
