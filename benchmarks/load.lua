-- Sends prepared requests. Arguments: mode, file, token, first number, share of each thread.
--   stage    the file has one body a line, in which @NUMBER@ is replaced by a fresh external account number
--   process  the file has one body, in which @NUMBER@ is replaced likewise; ends when the share is used up
--   keyed    the same, with an Idempotency-Key
--   add      the file has one body, in which @NUMBER@ is replaced by one number of the share after the other, and
--            @UNIQUE@ by a number that no other request has
--   get      the path is asked for again and again; with @NUMBER@ in it, one number after another
local threads = 0

function setup(thread)
  thread:set("id", threads)
  threads = threads + 1
end

function init(args)
  mode, token, first, share = args[1], args[3], tonumber(args[4]), tonumber(args[5])
  next_number = first + id * share
  last_number = next_number + share
  heads, tails, unique, started = {}, {}, 0, os.time() .. "-"
  if mode ~= "get" then
    for line in io.lines(args[2]) do
      local at = line:find("@NUMBER@", 1, true)
      heads[#heads + 1] = line:sub(1, at - 1)
      tails[#tails + 1] = line:sub(at + 8)
    end
    at = id * math.floor(#heads / 2)
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
  end
  wrk.headers["Authorization"] = "Token " .. token
end

function request()
  local number = string.format("%08d", next_number)
  next_number = next_number + 1
  if next_number >= last_number then
    if mode == "process" or mode == "keyed" then wrk.thread:stop() else next_number = first + id * share end
  end
  if mode == "get" then
    return wrk.format(nil, (wrk.path:gsub("@NUMBER@", number)))
  end
  at = at % #heads + 1
  if mode == "add" then
    unique = unique + 1
    return wrk.format(nil, nil, nil, heads[at] .. number .. (tails[at]:gsub("@UNIQUE@", started .. id .. "-" .. unique)))
  end
  if mode == "keyed" then
    wrk.headers["Idempotency-Key"] = started .. number
  end
  return wrk.format(nil, nil, nil, heads[at] .. number .. tails[at])
end

function done(summary, latency, requests)
  io.write(string.format(
    'RESULT {"requests": %d, "seconds": %.6f, "refused": %d, "broken": %d, "p50_ms": %.4f, "p95_ms": %.4f}\n',
    summary.requests, summary.duration / 1e6, summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(95) / 1000))
end
