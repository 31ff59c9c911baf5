package sandbox

import (
	"encoding/json"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilter_SurvivesItsText(t *testing.T) {
	want := Filter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 4},
		{Code: unix.BPF_JMP | unix.BPF_JEQ, Jt: 1, Jf: 255, K: 0xc000003e},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Filter
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	for _, bad := range []string{`"AAAA"`, `"?"`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s is a filter", bad)
		}
	}
}
