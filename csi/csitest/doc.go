// Package csitest is a CSI plugin for tests: a real gRPC server on a real unix socket, with volumes in
// memory, whose every RPC can be scripted. Without a script the RPCs of berth's client behave as the
// specification demands, and others are not implemented. A test then changes one RPC at a time:
//
//	p := csitest.Start(t, csitest.Config{Name: "ebs", Node: true})
//	p.Fail("NodeStageVolume", csitest.Error("Aborted", "busy"), nil) // the first call fails
//	release := p.Hang("NodePublishVolume")                           // calls wait
//	p.Script("NodeGetInfo", func(ctx context.Context, req any) (any, error) { ... })
//	p.Count("NodeStageVolume"); p.Calls("NodeStageVolume")[0].Get("staging_target_path")
//
// With Config.Mounts it really binds a directory per volume into staging and target paths. Tests need to
// know neither gRPC nor the generated messages.
package csitest
