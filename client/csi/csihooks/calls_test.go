package csihooks

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/backoff/cuttest"
	"berth/structs"
)

// A cut may end during a call. The call is repeated at once, and the next pause is the shortest.
func TestCalls_AreRepeatedAtTheEndOfACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut cuttest.Cut
		h := &volumesHook{
			VolumesConfig: VolumesConfig{
				ServersBack: &cut.Back,
				Progress:    func(string, string) {},
				RetryMin:    250 * time.Millisecond,
				RetryMax:    15 * time.Second,
			},
			alloc: &structs.Allocation{ID: "a1"},
		}
		_, err := callUntilFinal(t.Context(), h, "claiming", func() (*structs.Empty, error) {
			return &structs.Empty{}, cut.Attempt()
		})
		if err != nil {
			t.Fatal(err)
		}
		before, first, second := cut.Pauses()
		if before != h.RetryMax || first != 0 || second != h.RetryMin {
			t.Errorf("the pause is %s before the end of the cut, then %s and %s", before, first, second)
		}
	})
}

// The manager of the plugins confirms the claim at the servers.
func TestUseOf_GivesTheEndOfACutToTheManager(t *testing.T) {
	var cut cuttest.Cut
	h := &volumesHook{VolumesConfig: VolumesConfig{ServersBack: &cut.Back}, alloc: &structs.Allocation{ID: "a1"}}
	answer := &structs.CSIClaimGetResponse{Volume: &structs.CSIVolume{}, Claim: &structs.CSIClaim{}}
	u := h.useOf(&requiredVolume{request: &structs.VolumeRequest{}}, answer, time.Now())
	if u.ServersBack != &cut.Back {
		t.Errorf("the use of the volume has %p, not the recovery of the node", u.ServersBack)
	}
}
