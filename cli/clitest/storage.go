package clitest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"berth/api/apitest"
	"berth/api/show"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
)

func (w *Cluster) answerStorage() {
	w.answerPlugins()
	w.answerVolumeReads()
	w.answerVolumeWrites()
	w.answerClasses()
	w.answerSnapshots()
	w.answerDrift()
}

func (w *Cluster) answerPlugins() {
	c := w.Caller
	controller := &structs.CSIInfo{
		PluginID:          "hostpath",
		AllocID:           Alloc2,
		HealthDescription: "the probe timed out",
		UpdateTime:        nanosBefore(3 * time.Second),
		ControllerInfo:    &structs.CSIControllerInfo{SupportsCreateDelete: true, SupportsExpand: true},
	}
	apitest.On(c, structs.CSIPluginList, func(_ context.Context, r *structs.QueryRequest) (
		*structs.CSIPluginListResponse, error,
	) {
		resp := &structs.CSIPluginListResponse{}
		if strings.HasPrefix("hostpath", r.Prefix) {
			resp.Plugins = []*structs.CSIPluginListStub{{
				ID:                  "hostpath",
				Provider:            "hostpath.berth",
				ControllerRequired:  true,
				ControllersExpected: 1,
				NodesHealthy:        1,
				NodesExpected:       2,
			}}
		}
		return resp, nil
	})
	hostpath := &structs.CSIPluginGetResponse{Plugin: &structs.CSIPlugin{
		ID:                  "hostpath",
		Provider:            "hostpath.berth",
		Version:             "0.1.0",
		ControllerRequired:  true,
		ControllersExpected: 1,
		NodesHealthy:        1,
		NodesExpected:       2,
		Nodes:               map[string]*structs.CSIInfo{Node1: nodeInstance()},
		Controllers:         map[string]*structs.CSIInfo{Node2: controller},
		Allocations:         []*structs.AllocListStub{crashingAlloc()},
	}}
	apitest.On(c, structs.CSIPluginGet,
		func(_ context.Context, r *structs.CSIPluginGetRequest) (*structs.CSIPluginGetResponse, error) {
			if r.ID == "plug" {
				return w.readPlug()
			}
			return hostpath, nil
		})
	apitest.On(c, storage.PluginSettingsGet,
		func(_ context.Context, r *structs.CSIPluginGetRequest) (*storage.PluginSettingsResponse, error) {
			config := w.pluginConf
			config.ID = r.ID
			config.OnNodeLoss = cmp.Or(config.OnNodeLoss, structs.LossHold)
			return &storage.PluginSettingsResponse{Config: &config}, nil
		})
	apitest.On(c, storage.PluginSettingsSet,
		func(_ context.Context, r *storage.PluginSettingsRequest) (*structs.Empty, error) {
			err := validate.PluginConfig(r)
			if err == nil {
				w.pluginConf.OnNodeLoss = r.OnNodeLoss
				w.pluginConf.SecretsFrom = r.SecretsFrom
				w.pluginConf.PluginCalls = r.PluginCalls
				w.pluginConf.PluginDrift = r.PluginDrift
				w.pluginConf.Inline = r.Inline
			}
			return &structs.Empty{}, err
		})
	type externals = structs.CSIVolumeExternalResponse
	apitest.On(c, structs.CSIVolumeExternal,
		func(_ context.Context, r *structs.CSIVolumeExternalRequest) (*externals, error) {
			if r.NextToken == "" {
				resp := &externals{
					NextToken: "2",
					Volumes: []*structs.CSIVolumeExternalStub{
						{
							ExternalID:               "vol-1",
							CapacityBytes:            10 << 20,
							Record:                   structs.ExternalRecorded,
							PublishedExternalNodeIDs: []string{"one", "two"},
						},
					},
				}
				resp.QueryMeta.NextToken = "2"
				return resp, nil
			}
			return &externals{
				Warnings: []string{"the volumes in zone=b are not listed"},
				Volumes: []*structs.CSIVolumeExternalStub{
					{
						ExternalID: "stray",
						IsAbnormal: true,
						Status:     "degraded",
						Record:     structs.ExternalStray,
					},
					{ExternalID: "other", Record: structs.ExternalUnknown},
				},
			}, nil
		})
}

func (w *Cluster) answerVolumeReads() {
	c := w.Caller
	apitest.On(c, structs.CSIVolumeList, func(_ context.Context, r *structs.CSIVolumeListRequest) (
		*structs.CSIVolumeListResponse, error,
	) {
		all := []*structs.CSIVolumeListStub{
			{
				ID:             "data",
				Name:           "data",
				ExternalID:     "vol-1",
				PluginID:       "hostpath",
				State:          "ready",
				Schedulable:    true,
				AccessMode:     structs.CSISingleNodeWriter,
				CurrentWriters: 1,
				Waiting:        1,
			},
			{
				ID:       "scratch",
				Name:     "scratch",
				PluginID: "hostpath",
				State:    "creating",
			},
		}
		if r.Prefix == "later" {
			all = []*structs.CSIVolumeListStub{{
				ID: "later", PluginID: "hostpath", State: "ready", Drift: storage.DriftStrayAttachment,
			}}
		}
		return &structs.CSIVolumeListResponse{Volumes: slices.DeleteFunc(all,
			func(v *structs.CSIVolumeListStub) bool {
				return !strings.HasPrefix(v.ID, r.Prefix) ||
					r.PluginID != "" && r.PluginID != v.PluginID
			})}, nil
	})

	apitest.On(c, structs.CSIVolumeGet, func(_ context.Context, r *structs.CSIVolumeGetRequest) (
		*structs.CSIVolumeGetResponse, error,
	) {
		switch r.ID {
		case "data", "slow":
			return &structs.CSIVolumeGetResponse{Volume: dataVolume()}, nil
		case "later":
			return &structs.CSIVolumeGetResponse{Volume: markedVolume()}, nil
		}
		return nil, NotFound("volume", r.ID)
	})

	apitest.On(c, structs.CSIClaimList, func(_ context.Context, r *structs.CSIClaimListRequest) (
		*structs.CSIClaimListResponse, error,
	) {
		if r.VolumeID != "data" {
			return nil, NotFound("volume", r.VolumeID)
		}

		claims := append(dataVolume().Claims, &structs.CSIClaim{
			VolumeID: "data",
			AllocID:  Alloc3,
			State:    "waiting",
			Reason:   "second in line, behind allocation a2a2a2a2",
		})
		return &structs.CSIClaimListResponse{Claims: claims}, nil
	})
}

func (w *Cluster) answerVolumeWrites() {
	c := w.Caller
	type written = structs.CSIVolumeRegisterResponse
	made := func(_ context.Context, r *structs.CSIVolumeRegisterRequest) (*written, error) {
		v := r.Volumes[0].Copy()
		if v.PluginID != "" && v.PluginID != "hostpath" {
			return nil, structs.Errorf(structs.KindPrecondition, "no plugin %q; run its job first", v.PluginID)
		}
		v.ExternalID = "vol-" + v.ID
		v.Capacity = v.RequestedCapacityMin
		return &written{Volumes: []*structs.CSIVolume{v}}, nil
	}
	apitest.On(c, structs.CSIVolumeCreate, made)
	apitest.On(c, structs.CSIVolumeRegister, made)
	apitest.On(c, structs.CSIVolumeDeregister, func(_ context.Context, r *structs.CSIVolumeDeregisterRequest) (
		*structs.Empty, error,
	) {
		if !r.Force {
			return nil, structs.Errorf(structs.KindPrecondition, "volume %q is in use: claimed by allocation %s",
				r.ID, show.ShortID(Alloc1))
		}
		return &structs.Empty{}, nil
	})
	apitest.On(c, structs.CSIVolumeDelete,
		func(ctx context.Context, r *structs.CSIVolumeDeleteRequest) (*structs.Empty, error) {
			if r.ID == "slow" {
				select {
				case w.Slow <- r.ID:
				default:
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if r.ID == "later" {
				return &structs.Empty{}, nil
			}
			if r.Secrets["key"] != "a,b=c" {
				return nil, structs.Errorf(structs.KindDenied, "plugin hostpath: PermissionDenied: wrong key")
			}
			return &structs.Empty{}, nil
		})
	w.answerClaims()
	apitest.On(c, structs.CSIVolumeDetach,
		func(_ context.Context, r *structs.CSIVolumeDetachRequest) (*structs.CSIVolumeDetachResponse, error) {
			if r.NodeID == Node2 && !r.Force {
				return nil, structs.Errorf(structs.KindUnavailable, "node two is down")
			}
			if r.Force && r.By == "" {
				return nil, structs.Errorf(structs.KindInvalid, "the user of a forced detach is missing")
			}
			detail := "Node " + show.ShortID(r.NodeID) + " proved this"
			return &structs.CSIVolumeDetachResponse{Detail: detail}, nil
		})
	apitest.On(c, structs.CSIVolumeLabel,
		func(_ context.Context, r *structs.CSIVolumeLabelRequest) (*structs.CSIVolumeLabelResponse, error) {
			if r.ID != "data" {
				return nil, NotFound("volume", r.ID)
			}
			return &structs.CSIVolumeLabelResponse{Warnings: "the rule names no owner"}, nil
		})
	apitest.On(c, structs.CSIVolumeRetry,
		func(_ context.Context, r *structs.CSIVolumeRetryRequest) (*structs.CSIVolumeRetryResponse, error) {
			if r.ID != "data" {
				return nil, NotFound("volume", r.ID)
			}
			return &structs.CSIVolumeRetryResponse{}, nil
		})
}

// answerClaims answers the requests for single claims.
func (w *Cluster) answerClaims() {
	c := w.Caller
	apitest.On(c, structs.VolumeClaimList,
		func(_ context.Context, r *structs.VolumeClaimListRequest) (*structs.VolumeClaimListResponse, error) {
			granted := &structs.VolumeClaimStub{
				ID:       structs.ClaimID("data", Alloc1),
				VolumeID: "data",
				AllocID:  Alloc1,
				NodeID:   Node1,
				NodeName: "one",
				JobID:    "web",
				Mode:     structs.ClaimWrite,
				State:    structs.ClaimGranted,
			}
			granted.Cause = structs.CauseInUse
			granted.CauseText = "allocation of job web is running"
			waiting := *granted
			waiting.AllocID = Alloc3
			waiting.ID = structs.ClaimID("data", Alloc3)
			waiting.State = structs.ClaimWaiting
			waiting.Position = 1
			waiting.Cause = structs.CauseClaims
			waiting.CauseText = "allocation of job web holds it"
			all := []*structs.VolumeClaimStub{granted, &waiting}
			return &structs.VolumeClaimListResponse{Claims: slices.DeleteFunc(all,
				func(v *structs.VolumeClaimStub) bool {
					return r.AllocID != "" && v.AllocID != r.AllocID || r.VolumeID != "" && v.VolumeID != r.VolumeID
				})}, nil
		})
	apitest.On(c, structs.VolumeClaimRelease,
		func(_ context.Context, r *structs.VolumeClaimReleaseRequest) (*structs.VolumeClaimReleaseResponse, error) {
			if r.DryRun {
				return &structs.VolumeClaimReleaseResponse{
					Steps:    []string{"the claim is deleted"},
					Unproved: []string{"node one does not write"},
				}, nil
			}
			return &structs.VolumeClaimReleaseResponse{Detail: "Node one has released it"}, nil
		})
	apitest.Fail(c, structs.VolumeClaimForce, &structs.Error{
		Kind:   structs.KindDenied,
		Text:   "only over the operator socket of server s1",
		Socket: "/var/lib/berth/berth.sock",
	})
}

// crashingAlloc returns an allocation whose plugin was healthy once and exits repeatedly.
func crashingAlloc() *structs.AllocListStub {
	event := func(kind string, ago time.Duration, text string) *structs.TaskEvent {
		return &structs.TaskEvent{
			Type:           kind,
			Time:           nanosBefore(ago),
			DisplayMessage: text,
		}
	}
	return &structs.AllocListStub{
		ID:            Alloc3,
		JobID:         "hostpath",
		TaskGroup:     "app",
		NodeID:        Node1,
		NodeName:      "one",
		DesiredStatus: "run",
		ClientStatus:  "pending",
		CreateTime:    nanosBefore(time.Hour),
		ModifyTime:    nanosBefore(time.Second),
		TaskStates: map[string]*structs.TaskState{"plugin": {
			Restarts: 3,
			Events: []*structs.TaskEvent{
				event(structs.TaskEventTerminated, 50*time.Minute, "exit code 7"),
				event(structs.TaskEventPluginHealthy, 40*time.Minute, ""),
				event(structs.TaskEventTerminated, 4*time.Minute, "exit code 1"),
				event(structs.TaskEventTerminated, 20*time.Second, "exit code 2: no license"),
				event(structs.TaskEventRestarting, 19*time.Second, "in 15s"),
			},
		}},
	}
}

// readPlug returns the plugin of the job "plug". It does not exist at the first read, is not used at the
// second and is healthy afterwards.
func (w *Cluster) readPlug() (*structs.CSIPluginGetResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads["plugin"]++
	if w.reads["plugin"] == 1 {
		return nil, NotFound("plugin", "plug")
	}
	i := &structs.CSIInfo{
		PluginID:          "plug",
		AllocID:           Alloc3,
		Healthy:           w.reads["plugin"] > 2,
		HealthDescription: "not used: its driver is another",
	}
	return &structs.CSIPluginGetResponse{Plugin: &structs.CSIPlugin{
		ID:    "plug",
		Nodes: map[string]*structs.CSIInfo{Node1: i},
	}}, nil
}

func dataVolume() *structs.CSIVolumeDetail {
	return &structs.CSIVolumeDetail{
		CSIVolume: structs.CSIVolume{
			ID: "data", Namespace: "default", ModifyTime: nanosBefore(time.Hour),
			CSIVolumeSpec: structs.CSIVolumeSpec{
				Name:         "data",
				ExternalID:   "vol-1",
				PluginID:     "hostpath",
				Labels:       map[string]string{"tier": "gold", "owner": "billing"},
				MountOptions: &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}},
				RequestedCapabilities: []*structs.CSIVolumeCapability{{
					AccessMode:     structs.CSISingleNodeWriter,
					AttachmentMode: structs.CSIFileSystem,
				}},
			},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{
				State:      "ready",
				Capacity:   10 << 20,
				CreateTime: nanosBefore(24 * time.Hour),
				Topologies: []*structs.CSITopology{
					nil,
					{Segments: map[string]string{"topology.berth/node": "one"}},
				},
			},
			CSIVolumeStatus: structs.CSIVolumeStatus{
				TurnedReadOnly: &structs.CSITurnedReadOnly{
					NodeID:  Node2,
					AllocID: Alloc1,
					Time:    nanosBefore(2 * time.Hour),
				},
			},
		},
		AccessMode:          structs.CSISingleNodeWriter,
		AttachmentMode:      structs.CSIFileSystem,
		LossPolicy:          structs.LossHold,
		Schedulable:         true,
		Provider:            "hostpath.berth",
		ProviderVersion:     "0.1.0",
		ControllerRequired:  true,
		ControllersExpected: 1,
		NodesHealthy:        1,
		NodesExpected:       2,
		Claims: []*structs.CSIClaim{
			{
				VolumeID:   "data",
				AllocID:    Alloc1,
				NodeID:     Node1,
				JobID:      "web",
				Mode:       "write",
				AccessMode: structs.CSISingleNodeWriter,
				State:      "granted",
				CreateTime: nanosBefore(time.Hour),
			},
			{
				VolumeID:   "data",
				AllocID:    Alloc2,
				NodeID:     Node2,
				JobID:      "web",
				Mode:       "write",
				AccessMode: structs.CSISingleNodeWriter,
				State:      "waiting",
				CreateTime: nanosBefore(time.Hour),
				Reason:     "allocation a1a1a1a1 on node one writes to it; stop it to free the volume",
			},
		},
		Attachments: []*structs.CSIAttachment{{
			NodeID:     Node1,
			State:      "attaching",
			ModifyTime: nanosBefore(time.Minute),
			LastError: &structs.OperationError{
				Message:  "the device is busy",
				Code:     "Unavailable",
				Attempts: 3,
				Time:     nanosBefore(5 * time.Second),
			},
		}},
	}
}

// allocsOf returns the allocations of a job. That of the job "storage" has the node instance of the plugin.
func (w *Cluster) allocsOf(jobID string) []*structs.AllocListStub {
	if jobID == "storage" {
		return []*structs.AllocListStub{{ID: Alloc1, NodeID: Node1, JobID: jobID}}
	}
	return w.findAllocs(func(a *structs.Allocation) bool { return a.JobID == jobID })
}
