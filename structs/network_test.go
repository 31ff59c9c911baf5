package structs

import (
	"reflect"
	"strings"
	"testing"
)

func TestParsePorts_ReadsPortsAndRanges(t *testing.T) {
	for text, want := range map[string]PortRanges{
		"":                 nil,
		" ":                nil,
		"22":               {{22, 22}},
		"22, 80,8000-8100": {{22, 22}, {80, 80}, {8000, 8100}},
		"1-65535":          {{1, MaxPort}},
	} {
		got, err := ParsePorts(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"0", "65536", "80-22", "-1", "1-", "a", "22,", ",", "1-2-3", "0x10", "99999999999999999999",
		strings.Repeat("1,", MaxPortsText/2) + "1",
	} {
		if got, err := ParsePorts(text); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.20q: got %v, %.300v", text, got, err)
		}
	}
	ranges, _ := ParsePorts("22,8000-8100")
	for port, want := range map[int]bool{21: false, 22: true, 7999: false, 8000: true, 8100: true, 8101: false} {
		if ranges.Has(port) != want {
			t.Errorf("port %d is among them: %v, want %v", port, !want, want)
		}
	}
}

func TestNode_HasDynamicPorts(t *testing.T) {
	if low, high := new(Node).DynamicPorts(); low != DefaultMinDynamicPort || high != DefaultMaxDynamicPort {
		t.Errorf("a node has dynamic ports from %d to %d", low, high)
	}
}

func TestWithResources_ShowsPorts(t *testing.T) {
	a := &Allocation{Ports: []AllocatedPort{
		{Label: "a", Value: 1, HostIP: "10.0.0.1"},
		{Label: "b", Value: 2, To: 3, HostIP: "10.0.0.2"},
		{Label: "c", Value: 4, HostIP: "10.0.0.1"},
	}}
	shared := a.WithResources().AllocatedResources.Shared
	want := []*NetworkResource{
		{
			Mode:         NetworkModeHost,
			IP:           "10.0.0.1",
			DynamicPorts: []Port{{Label: "a", Value: 1}, {Label: "c", Value: 4}},
		},
		{Mode: NetworkModeHost, IP: "10.0.0.2", DynamicPorts: []Port{{Label: "b", Value: 2, To: 3}}},
	}
	if !reflect.DeepEqual(shared.Ports, a.Ports) || !reflect.DeepEqual(shared.Networks, want) {
		t.Errorf("got %+v", shared)
	}
}

func FuzzParsePorts(f *testing.F) {
	for _, s := range []string{"", "22", "22,80-90", "1-65535, 5", "-", "9-1", "0,1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ranges, err := ParsePorts(s)
		if err != nil && ranges != nil {
			t.Errorf("%q: got %v and %v", s, ranges, err)
		}
		if ranges.Has(0) || ranges.Has(MaxPort+1) {
			t.Errorf("%q has a port that no address has", s)
		}
	})
}
