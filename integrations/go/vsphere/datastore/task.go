package datastore

import (
	"context"
	"errors"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/catalogue"
	"ashlar/integrations/vsphere/job"
)

// Tasks are what vCenter calls the jobs of this package, by id.
var Tasks = map[string]string{
	taskCreate: "Create a datastore on the array", taskGrow: "Grow a datastore on the array",
	taskClone: "Clone a datastore on the array", taskResignature: "Mount the copy of a datastore",
	taskUnmap: "Give unused blocks of a datastore back", taskDelete: "Delete a datastore on the array",
	TaskApply: "Change settings of hosts for the array",
}

const (
	taskCreate      = catalogue.Key + ".create"
	taskGrow        = catalogue.Key + ".grow"
	taskClone       = catalogue.Key + ".clone"
	taskResignature = catalogue.Key + ".resignature"
	taskUnmap       = catalogue.Key + ".unmap"
	taskDelete      = catalogue.Key + ".delete"
	// TaskApply is for changes of hosts, which are made elsewhere.
	TaskApply = catalogue.Key + ".apply"
)

// Task does steps of its caller as a task of vCenter on an object.
func (m *Manager) Task(ctx context.Context, kind string, on types.ManagedObjectReference, steps []job.Step) error {
	return m.run(ctx, kind, on, steps)
}

// run does a job and shows it as a task of vCenter on an object. vCenter knows the task if the extension is registered; a
// task that can't be shown keeps no job from being done.
func (m *Manager) run(ctx context.Context, kind string, on types.ManagedObjectReference, steps []job.Step) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	shown := m.begins(ctx, kind, on, job.Reversible(steps))
	err := job.Run(ctx, steps, func(it job.Progress) {
		shown.progress(it)
		if m.Progress != nil {
			m.Progress(it)
		}
		// Asked between two steps only: one that is interrupted may have happened or not.
		if it.State == job.Begins && shown.cancelled() {
			cancel(job.ErrCancelled)
		}
	})
	shown.ends(err)
	return err
}

// shownTask is a job in vCenter; without a task nothing is shown.
type shownTask struct {
	*Manager
	// ctx outlives an interrupt, so that an interrupted task ends.
	ctx     context.Context
	task    *types.ManagedObjectReference
	running bool
	// cancelable: vCenter offers to cancel the task.
	cancelable bool
}

func (m *Manager) begins(ctx context.Context, kind string, on types.ManagedObjectReference, cancelable bool) *shownTask {
	shown := &shownTask{Manager: m, ctx: context.WithoutCancel(ctx), cancelable: cancelable}
	manager := m.VCenter.ServiceContent.TaskManager
	if manager == nil {
		return shown
	}
	made, err := methods.CreateTask(shown.ctx, m.VCenter.Client.Client, &types.CreateTask{This: *manager, Obj: on, TaskTypeId: kind, Cancelable: cancelable})
	if err == nil {
		shown.task = &made.Returnval.Task
	}
	return shown
}

const percent = 100

func (s *shownTask) progress(it job.Progress) {
	if s.task == nil {
		return
	}
	client := s.VCenter.Client.Client
	if !s.running {
		_, err := methods.SetTaskState(s.ctx, client, &types.SetTaskState{This: *s.task, State: types.TaskInfoStateRunning})
		s.running = err == nil
	}
	_, _ = methods.SetTaskDescription(s.ctx, client, &types.SetTaskDescription{This: *s.task,
		Description: types.LocalizableMessage{Key: "step", Message: it.String()}})
	done := it.Number - 1
	if it.State == job.Done {
		done = it.Number
	}
	_, _ = methods.UpdateProgress(s.ctx, client, &types.UpdateProgress{This: *s.task, PercentDone: int32(done * percent / it.Total)})
}

// cancelled reports whether a user cancelled the task in vCenter. Without an answer the job continues.
func (s *shownTask) cancelled() bool {
	if s.task == nil || !s.cancelable {
		return false
	}
	var found mo.Task
	err := property.DefaultCollector(s.VCenter.Client.Client).RetrieveOne(s.ctx, *s.task, []string{"info.cancelled"}, &found)
	return err == nil && found.Info.Cancelled
}

func (s *shownTask) ends(failure error) {
	if s.task == nil {
		return
	}
	request := &types.SetTaskState{This: *s.task, State: types.TaskInfoStateSuccess}
	if failure != nil {
		request.State = types.TaskInfoStateError
		request.Fault = &types.LocalizedMethodFault{LocalizedMessage: failure.Error(),
			Fault: &types.ExtendedFault{VimFault: types.VimFault{}, FaultTypeId: catalogue.Key + ".failed"}}
		if errors.Is(failure, job.ErrCancelled) {
			request.Fault.Fault = &types.RequestCanceled{}
		}
	}
	_, _ = methods.SetTaskState(s.ctx, s.VCenter.Client.Client, request)
}
