package csitrace

import (
	"context"
	"errors"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var stageInfo = &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Node/NodeStageVolume"}

// The record has what the caller sent and got, also if the plugin changes its messages later.
func TestRecorder_TakesWhatTheCallerGets(t *testing.T) {
	var r Recorder
	intercept := r.Intercept("one", "n1", nil)
	request := &spec.NodeStageVolumeRequest{VolumeId: "v"}
	answer := &spec.NodeStageVolumeResponse{}
	got, err := intercept(t.Context(), request, stageInfo, func(context.Context, any) (any, error) {
		inside := r.Trace()[0]
		if inside.Code != "" || inside.End != 0 {
			t.Errorf("during the call it is %s", inside)
		}
		return answer, nil
	})
	if got != answer || err != nil {
		t.Errorf("the interceptor answers %v, %v", got, err)
	}
	request.VolumeId = "changed"
	_, err = intercept(t.Context(), request, stageInfo, func(context.Context, any) (any, error) {
		return nil, status.Error(codes.Aborted, "busy")
	})
	if status.Code(err) != codes.Aborted {
		t.Errorf("the interceptor answers %v", err)
	}

	trace := r.Trace()
	if len(trace) != 2 || volumeOf(trace[0]) != "v" || trace[0].Code != OK || trace[0].Answer == nil ||
		trace[1].Code != "Aborted" || trace[1].Answer != nil {
		t.Errorf("the trace is %v", trace)
	}
	if trace[0].Start != 1 || trace[0].End != 2 || trace[1].Start != 3 || trace[1].End != 4 {
		t.Errorf("the positions are wrong: %v", trace)
	}
}

// A call whose caller has gone has no answer, because nobody knows of it.
func TestRecorder_CountsAnAnswerThatNobodyGetsAsNone(t *testing.T) {
	var r Recorder
	ctx, cancel := context.WithCancel(t.Context())
	_, err := r.Intercept("one", "n1", nil)(ctx, &spec.NodeStageVolumeRequest{}, stageInfo,
		func(context.Context, any) (any, error) {
			cancel()
			return &spec.NodeStageVolumeResponse{}, nil
		})
	if status.Code(err) != codes.Canceled || errors.Is(err, context.Canceled) {
		t.Errorf("the interceptor answers %v", err)
	}
	if c := r.Trace()[0]; c.Code != "Canceled" || c.Answer != nil {
		t.Errorf("the record is %s", c)
	}
}

func TestRecorder_TakesAPowerLoss(t *testing.T) {
	var r Recorder
	r.PowerLoss("n1")
	if c := r.Trace()[0]; c.RPC != PowerLoss || c.Node != "n1" || c.End != 2 {
		t.Errorf("the record is %s", c)
	}
}

// The function around a call decides on its answer, and the record has that.
func TestRecorder_TakesTheAnswerFromAround(t *testing.T) {
	var r Recorder
	next := r.Next()
	fail := func(ctx context.Context, rpc string, req any, serve Serve) (any, error) {
		select {
		case <-next:
		default:
			t.Error("the start of the call is not announced")
		}
		if rpc != "NodeStageVolume" {
			t.Errorf("the call is %s", rpc)
		}
		_, _ = serve(ctx, req)
		return nil, status.Error(codes.Unavailable, "lost")
	}
	served := false
	_, err := r.Intercept("one", "n1", fail)(t.Context(), &spec.NodeStageVolumeRequest{}, stageInfo,
		func(context.Context, any) (any, error) {
			served = true
			return &spec.NodeStageVolumeResponse{}, nil
		})
	if c := r.Trace()[0]; status.Code(err) != codes.Unavailable || !served || c.Code != "Unavailable" {
		t.Errorf("the call ends with %v, served %t: %s", err, served, c)
	}
}
