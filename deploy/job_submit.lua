-- Lets makeway look at the cluster as soon as an urgent job is submitted, and not only at its next poll.
--
-- Put this file next to slurm.conf, write JobSubmitPlugins=lua there, and run `scontrol reconfigure`. A site that has a
-- job_submit.lua already adds the lines above slurm_job_submit to it, and calls `poke_if_urgent(job_desc)` in its own function.
-- SlurmUser has to be a member of the group makeway-users, which may use makeway's socket.
--
-- slurmctld does not wait for the command, and nothing that a user has written becomes a part of it. A job that gets its QOS by
-- default has none here yet: makeway sees it at its next poll.
local urgent_qos = { ["realtime"] = true }
local urgent_partitions = {}
local poke = "/opt/makeway/bin/makeway poke --config /etc/makeway/makeway.yaml"
local poked_s = 0

local function is_urgent(job_desc)
    if job_desc.qos ~= nil and urgent_qos[job_desc.qos] then
        return true
    end
    for name in string.gmatch(job_desc.partition or "", "[^,]+") do
        if urgent_partitions[name] then
            return true
        end
    end
    return false
end

-- The job is in the queue a moment later. One command serves all the jobs of a second.
local function poke_if_urgent(job_desc)
    local now_s = os.time()
    if is_urgent(job_desc) and now_s ~= poked_s then
        poked_s = now_s
        os.execute("(sleep 1; " .. poke .. ") </dev/null >/dev/null 2>&1 &")
    end
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    poke_if_urgent(job_desc)
    return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end
