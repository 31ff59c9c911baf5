package csi

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
)

func TestPage_WarnsOfAPlaceThatIsDown(t *testing.T) {
	s := state.New()
	halfDown(t, s)
	list := placeList[string]{
		Kind:  "things",
		Key:   func(s string) string { return s },
		Bytes: func(s string) int { return len(s) },
		Call: func(_ context.Context, nodes []string, _ string, _ int32) (a placeAnswer[string], err error) {
			if len(nodes) == 0 {
				return a, nodeconn.ErrNoController
			}
			return placeAnswer[string]{Entries: []string{"of " + nodes[0]}}, nil
		},
	}
	page, err := list.Page(t.Context(), s.Read(), "p", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Entries) != 1 || page.Entries[0] != "of n1" || len(page.Warnings) != 1 ||
		!strings.HasPrefix(page.Warnings[0], "the things in node=n2 (controller on node n2) are not listed: ") {
		t.Errorf("got %q and the warnings %q", page.Entries, page.Warnings)
	}
}

// pagesOfOne lists the things of the node n1, one on each page. It records the tokens. before may fail a
// call.
func pagesOfOne(tokens *[]string, things []string, before func(token string) error) placeList[string] {
	return placeList[string]{
		Kind:  "things",
		Limit: 10,
		Key:   func(s string) string { return s },
		Bytes: func(s string) int { return len(s) },
		Call: func(_ context.Context, nodes []string, token string, _ int32) (a placeAnswer[string], err error) {
			if len(nodes) == 0 {
				return a, nil
			}
			*tokens = append(*tokens, token)
			err = before(token)
			if err != nil {
				return a, err
			}
			at, _ := strconv.Atoi(token)
			a.Entries = things[at : at+1]
			if at+1 < len(things) {
				a.NextToken = strconv.Itoa(at + 1)
			}
			return a, nil
		},
	}
}

// Pages are no consistent view of the storage: a thing comes twice when another one before it is deleted.
func TestDuty_H5_I18_AThingOnTwoPagesIsListedOnce(t *testing.T) {
	s := state.New()
	halfDown(t, s)
	var tokens []string
	list := pagesOfOne(&tokens, []string{"a", "b", "b", "c"}, func(string) error { return nil })
	page, err := list.Page(t.Context(), s.Read(), "p", "")
	if err != nil || strings.Join(page.Entries, "") != "abc" {
		t.Errorf("got %+v, %v", page, err)
	}
}

// A plugin rejects the token of a page with ABORTED. The list begins anew, a few times.
func TestDuty_H6_I19_AbortedBeginsTheListAnew(t *testing.T) {
	s := state.New()
	halfDown(t, s)
	rejections := 1
	reject := func(token string) error {
		if token == "" || rejections == 0 {
			return nil
		}
		rejections--
		return &structs.Error{Kind: structs.KindUnavailable, Code: structs.CSICodeAborted, Text: "old token"}
	}
	var tokens []string
	list := pagesOfOne(&tokens, []string{"a", "b", "c"}, reject)
	page, err := list.Page(t.Context(), s.Read(), "p", "")
	if err != nil || strings.Join(page.Entries, "") != "abc" || len(page.Warnings) != 0 {
		t.Errorf("got %+v, %v", page, err)
	}
	if want := []string{"", "1", "", "1", "2"}; !slices.Equal(tokens, want) {
		t.Errorf("called with the tokens %q, want %q", tokens, want)
	}

	tokens = nil
	rejections = 1000
	page, err = list.Page(t.Context(), s.Read(), "p", "")
	if err != nil || len(page.Warnings) != 1 || !strings.Contains(page.Warnings[0], "old token") ||
		len(tokens) != 8 {
		t.Errorf("%d calls, got %+v, %v", len(tokens), page, err)
	}
}

// The caller has read the entries before the token, so an anew begun list would give them again and again.
func TestPage_DoesNotReplaceATokenOfAnEarlierRequest(t *testing.T) {
	s := state.New()
	halfDown(t, s)
	reject := func(token string) error {
		if token == "" {
			return nil
		}
		return &structs.Error{Kind: structs.KindUnavailable, Code: structs.CSICodeAborted, Text: "old token"}
	}
	var tokens []string
	list := pagesOfOne(&tokens, []string{"a", "b"}, reject)
	list.Limit = 1
	first, err := list.Page(t.Context(), s.Read(), "p", "")
	if err != nil || first.NextToken == "" {
		t.Fatalf("got %+v, %v", first, err)
	}
	next, err := list.Page(t.Context(), s.Read(), "p", first.NextToken)
	if err != nil || len(next.Entries) != 0 || len(next.Warnings) != 1 ||
		!strings.Contains(next.Warnings[0], "begin the list anew, without a page token: old token") {
		t.Errorf("got %+v, %v", next, err)
	}
}

// halfDown registers the nodes n1 and n2 with halves of the plugin p, whose storage is local to each node.
// The controller of n2 is not healthy.
func halfDown(t testing.TB, s *state.Store) {
	t.Helper()
	for i, id := range []string{"n1", "n2"} {
		info := structs.CSIInfo{
			PluginID:           "p",
			Provider:           "p.csi",
			Healthy:            id == "n1",
			RequiresTopologies: true,
		}
		controller := &structs.CSIPluginInstance{Kind: structs.CSIKindController, NodeID: id, CSIInfo: info}
		controller.ControllerInfo = &structs.CSIControllerInfo{SupportsListSnapshots: true}
		node := &structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: id, CSIInfo: info}
		node.NodeInfo = &structs.CSINodeInfo{
			ID:                 id,
			AccessibleTopology: &structs.CSITopology{Segments: map[string]string{"node": id}},
		}
		err := s.Write(uint64(i+1), func(tx *mvcc.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{
				Node: &structs.Node{ID: id, SecretID: "s", Name: id, Status: structs.NodeReady},
				CSI:  []*structs.CSIPluginInstance{controller, node},
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
